//! shm_open(3) and shm_unlink(3).

use libc::{c_int, mode_t};
use vshmem_ipc::{Caller, Errno, PosixOpen};
use vshmem_session::Session;

use crate::attached::attach_table::Attaching;
use crate::attached::mapping_cache;
use crate::object_descriptors::{Access, open};
use crate::posix::umask;
use crate::session::caller::Credentials;
use crate::session::{current, exit};

/// shm_open(3) of a name without its slash.
///
/// # Errors
/// As the man page says.
pub fn open(name: &[u8], flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    let access = Access::of_flags(flags).ok_or(Errno::INVAL)?;
    let create = flags & libc::O_CREAT != 0;
    let how = PosixOpen {
        read: access.read,
        write: access.write,
        create,
        exclusive: flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        mode: if create { mode & !umask::current() } else { 0 },
    };
    let session = current::watchful_session()?;
    let this_client = session.client();
    let backing = mapping_cache::Through(session);
    // A fork waits until what is counted is in the table.
    let _changing = Attaching::begin();
    let refusals = [Errno::NOSPC, Errno::NOMEM, Errno::NFILE];
    let id = exit::retry_after_reaping(this_client, &refusals, || {
        this_client.posix_shm_open(name, how, &Credentials::now(), &backing)
    })?;
    let file = open::make_shared(id, access, || mode_of_file(session, id, access))?;
    let kept = flags & (libc::O_APPEND | libc::O_NONBLOCK);
    if kept != 0 {
        open::set_flags(file, kept);
    }
    Ok(file)
}

/// Who may open the file behind descriptors anew: those who may open the object, if it is made by
/// the object's owner; else its maker alone, as it has opened the object.
fn mode_of_file(session: &Session, id: i32, access: Access) -> u32 {
    let own = (u32::from(access.read) * 0o400) | (u32::from(access.write) * 0o200);
    match session.client().posix_shm_stat(id) {
        Ok(state) if state.uid == Credentials::now().uid() => state.mode,
        _ => own,
    }
}

/// shm_unlink(3) of a name without its slash.
///
/// # Errors
/// As the man page says.
pub fn unlink(name: &[u8]) -> Result<(), Errno> {
    current::watchful_session()?.client().posix_shm_unlink(name, &Credentials::now())
}
