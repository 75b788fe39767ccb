//! The one file of a shared memory object that all descriptors of it in a domain have behind them,
//! as far as it is found: what the kernel does for file locks it so does for the object.
//!
//! The pool says where such a file was open last. That is a hint, which any member may have made
//! up: the file is opened with O_PATH, which has no effect on whatever it is, and is used only if a
//! member has signed it for this object. Where none is found, one is made, and noted in the pool.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_int;
use vshmem_ipc::{Errno, SeenPlace};
use vshmem_session::Session;

use super::marker::{self, Signer};
use super::table::{Access, Descriptor, Object};
use crate::errno;
use crate::next::system_call;

/// How often another process may be faster to note a file.
const MOST_TRIES: u32 = 64;

/// What is opened, and for what.
struct Wanted<'a> {
    session: &'a Session,
    id: i32,
    access: Access,
}

/// Opens an object's file, or makes one, which then gets the mode that `mode` says. `own` is a
/// descriptor of the object that this process has.
///
/// # Errors
/// As [`marker::make`].
pub fn open(
    session: &Session,
    id: i32,
    access: Access,
    own: impl Fn(Option<c_int>) -> Option<(c_int, Descriptor)>,
    mode: impl Fn() -> u32,
) -> Result<(OwnedFd, Descriptor), Errno> {
    let client = session.client();
    let wanted = Wanted { session, id, access };
    let mut seen = client.posix_shm_seen_place(id)?;
    let noted = seen.open_in.filter(|(pid, _)| client.is_process_number(*pid));
    if let Some(found) = own(noted.map(|(_, file)| file as c_int)).and_then(|own| wanted.again(own))
    {
        return Ok(found);
    }
    for _ in 0..MOST_TRIES {
        if let Some(found) = wanted.of_another(seen) {
            let _ = client.posix_shm_note_place(id, seen, found.0.as_raw_fd() as u32);
            return Ok(found);
        }
        let made = wanted.make(mode())?;
        if client.posix_shm_note_place(id, seen, made.0.as_raw_fd() as u32)? {
            return Ok(made);
        }
        seen = client.posix_shm_seen_place(id)?;
    }
    wanted.make(mode())
}

impl Wanted<'_> {
    /// From a descriptor of this process.
    fn again(&self, (file, known): (c_int, Descriptor)) -> Option<(OwnedFd, Descriptor)> {
        let opened = open_number(None, file as u32, self.flags()).ok()?;
        let same = marker::identity_of(opened.as_raw_fd()) == Some(known.identity);
        same.then_some((opened, Descriptor { access: self.access, ..known }))
    }

    /// From where another process has it open, if it has.
    fn of_another(&self, seen: SeenPlace) -> Option<(OwnedFd, Descriptor)> {
        let (pid, file) = seen.open_in?;
        let path_only = open_number(Some(pid), file, libc::O_PATH | libc::O_CLOEXEC).ok()?;
        let known = marker::named(self.session, path_only.as_raw_fd())?;
        if known.object != Object::SharedMemory(self.id) {
            return None;
        }
        let (opened, descriptor) = self.again((path_only.as_raw_fd(), known))?;
        if !marker::is_sealed(opened.as_raw_fd()) {
            return None;
        }
        Some((lower(path_only, opened)?, descriptor))
    }

    fn make(&self, mode: u32) -> Result<(OwnedFd, Descriptor), Errno> {
        let object = Object::SharedMemory(self.id);
        let generation = marker::generation_of(self.session, object)?;
        let signer = Signer::of(self.session);
        let made = marker::make(&signer, object, self.access, generation, Some(mode))?;
        if self.access.read && self.access.write {
            return Ok(made);
        }
        let (opened, descriptor) = self.again((made.0.as_raw_fd(), made.1)).ok_or(Errno::ACCESS)?;
        Ok((lower(made.0, opened).ok_or(Errno::BADF)?, descriptor))
    }

    fn flags(&self) -> c_int {
        self.access.flags() | libc::O_CLOEXEC
    }
}

/// A descriptor under the number of one that was opened before it, which is closed: a program is
/// given the lowest number that was free.
fn lower(before: OwnedFd, opened: OwnedFd) -> Option<OwnedFd> {
    let words = [opened.as_raw_fd() as usize, before.as_raw_fd() as usize];
    let words = [words[0], words[1], libc::O_CLOEXEC as usize];
    // SAFETY: both are descriptors of ours, which no other code knows yet.
    errno_kept(|| unsafe { system_call(libc::SYS_dup3, words) }).ok().map(|_| before)
}

/// Opens what a process has open under a number: this process, or another one.
///
/// # Errors
/// As open(2).
pub fn open_number(pid: Option<u32>, file: u32, flags: c_int) -> Result<OwnedFd, Errno> {
    let path = marker::path_of(pid, file);
    let words = [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags as usize, 0];
    // SAFETY: the path ends with a null.
    match errno_kept(|| unsafe { system_call(libc::SYS_openat, words) }) {
        // SAFETY: the kernel has just made it, and no other code knows it.
        Ok(number) => Ok(unsafe { OwnedFd::from_raw_fd(number as c_int) }),
        Err(error) => Err(error),
    }
}

/// The result of a system call; the program's errno stays.
fn errno_kept(call: impl FnOnce() -> libc::c_long) -> Result<libc::c_long, Errno> {
    errno::untouched(|| match call() {
        number if number >= 0 => Ok(number),
        _ => Err(Errno::from_raw_os_error(errno::get())),
    })
}
