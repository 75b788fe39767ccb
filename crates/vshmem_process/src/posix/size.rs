//! ftruncate(2), fallocate(2) and posix_fallocate(3) of an object.

use libc::{c_int, off_t};
use vshmem_ipc::Errno;
use vshmem_session::Session;

use crate::attached::mapping_cache;
use crate::errno;
use crate::object_descriptors::{Descriptor, open};
use crate::posix::adopt;
use crate::session::{current, exit};

/// ftruncate(2), by whatever call.
#[inline]
pub fn truncate(file: c_int, bytes: off_t, call: impl FnOnce() -> c_int) -> c_int {
    if open::object_of(file).is_none() {
        let result = call();
        // An object that has come by a way that is not followed is sealed.
        if result == 0 || adopt::after_failure(file, libc::EPERM).is_none() {
            return result;
        }
        return truncate_known(file, bytes, || -1);
    }
    truncate_known(file, bytes, call)
}

#[cold]
fn truncate_known(file: c_int, bytes: off_t, call: impl FnOnce() -> c_int) -> c_int {
    let Some((id, known)) = open::shared_memory(file) else { return call() };
    let set = || {
        let bytes = u64::try_from(bytes).map_err(|_| Errno::INVAL)?;
        if !known.access.write {
            return Err(Errno::INVAL);
        }
        set_size(current::session()?, id, bytes)
    };
    errno::answer_unit(set())
}

/// Sets the size of an object.
pub fn set_size(session: &Session, id: i32, bytes: u64) -> Result<(), Errno> {
    let this_client = session.client();
    let backing = mapping_cache::Through(session);
    exit::retry_after_reaping(this_client, &[Errno::NOSPC, Errno::NOMEM], || {
        this_client.posix_shm_set_size(id, bytes, &backing)
    })
}

/// What a write behind the end does. Memory for half as much again is taken, while there is room:
/// a file that is written piece by piece would be copied for each.
pub fn extend(session: &Session, id: i32, bytes: u64) -> Result<(), Errno> {
    let this_client = session.client();
    let backing = mapping_cache::Through(session);
    let extend = |spare| this_client.posix_shm_extend(id, bytes, spare, &backing);
    match extend(bytes / 2) {
        Err(Errno::NOSPC | Errno::NOMEM) => {}
        done => return done,
    }
    exit::retry_after_reaping(this_client, &[Errno::NOSPC, Errno::NOMEM], || extend(0))
}

/// fallocate(2), by whatever call.
#[inline]
pub fn allocate(
    file: c_int,
    mode: c_int,
    offset: off_t,
    bytes: off_t,
    call: impl FnOnce() -> c_int,
) -> c_int {
    open::on_shared_memory(file, call, |id, known| {
        errno::answer_unit(allocate_known(id, known, mode, offset, bytes))
    })
}

/// posix_fallocate(3), by whatever call: returns the error.
#[inline]
pub fn allocate_all(
    file: c_int,
    offset: off_t,
    bytes: off_t,
    call: impl FnOnce() -> c_int,
) -> c_int {
    open::on_shared_memory(file, call, |id, known| {
        allocate_known(id, known, 0, offset, bytes).map_or_else(Errno::raw_os_error, |()| 0)
    })
}

/// Memory stands behind all of an object, so what is to be allocated is at most what lies behind
/// its end.
#[cold]
fn allocate_known(
    id: i32,
    known: Descriptor,
    mode: c_int,
    offset: off_t,
    bytes: off_t,
) -> Result<(), Errno> {
    if offset < 0 || bytes <= 0 {
        return Err(Errno::INVAL);
    }
    if mode & !libc::FALLOC_FL_KEEP_SIZE != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if !known.access.write {
        return Err(Errno::BADF);
    }
    let end = offset.checked_add(bytes).ok_or(Errno::FBIG)? as u64;
    let session = current::session()?;
    let state = session.client().posix_shm_stat(id)?;
    if end <= state.size || mode & libc::FALLOC_FL_KEEP_SIZE != 0 && end <= state.capacity {
        return Ok(());
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    set_size(session, id, end)
}
