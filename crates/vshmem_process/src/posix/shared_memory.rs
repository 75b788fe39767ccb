//! shm_open(3) and shm_unlink(3).

use libc::{c_int, mode_t};
use vshmem_ipc::{Errno, PosixOpen};

use crate::attached::attach_table::Attaching;
use crate::attached::mapping_cache;
use crate::object_descriptors::{Access, Object, open};
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
    let file = open::make(Object::SharedMemory(id), access)?;
    let kept = flags & (libc::O_APPEND | libc::O_NONBLOCK);
    if kept != 0 {
        open::set_flags(file, kept);
    }
    Ok(file)
}

/// shm_unlink(3) of a name without its slash.
///
/// # Errors
/// As the man page says.
pub fn unlink(name: &[u8]) -> Result<(), Errno> {
    current::watchful_session()?.client().posix_shm_unlink(name, &Credentials::now())
}
