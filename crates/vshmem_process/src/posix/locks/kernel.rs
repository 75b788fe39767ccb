//! The kernel's half: locks on the file behind a descriptor.

use libc::c_int;
use vshmem_ipc::{Errno, LockMode, LockRange, LockRequest};

use crate::errno;
use crate::next::system_call;

/// The kinds of lock that Linux has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// flock(2).
    Whole,
    /// F_SETLK.
    OfProcess,
    /// F_OFD_SETLK.
    OfDescription,
}

/// A descriptor whose locks are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub file: c_int,
    pub locks: Locks,
    pub inode: u64,
}

/// fcntl(2), raw.
pub(super) fn control(file: c_int, command: c_int, about: &libc::flock) -> c_int {
    let words = [file as usize, command as usize, std::ptr::from_ref(about).addr()];
    // SAFETY: the structure is live; commands that set locks only read it.
    unsafe { system_call(libc::SYS_fcntl, words) as c_int }
}

fn answered(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(errno::get())) }
}

impl Kernel {
    pub fn request(&self, id: i32, mode: LockMode, range: LockRange, blocks: bool) -> LockRequest {
        let (inode, file, class) = (self.inode, self.file as u32, self.locks.class());
        LockRequest { id, inode, file, class, mode, range, blocks }
    }

    pub fn about(mode: Option<LockMode>, range: LockRange) -> libc::flock {
        let kind = match mode {
            None => libc::F_UNLCK,
            Some(LockMode::Shared) => libc::F_RDLCK,
            Some(LockMode::Exclusive) => libc::F_WRLCK,
        };
        libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: range.start as i64,
            l_len: range.length() as i64,
            l_pid: 0,
        }
    }

    fn flock(&self, operation: c_int) -> c_int {
        // SAFETY: the call changes a lock of a descriptor.
        unsafe { system_call(libc::SYS_flock, [self.file as usize, operation as usize]) as c_int }
    }

    fn set(&self, mode: Option<LockMode>, range: LockRange, waits: bool) -> c_int {
        let command = match (self.locks, waits) {
            (Locks::Whole, _) => {
                let operation = match mode {
                    None => libc::LOCK_UN,
                    Some(LockMode::Shared) => libc::LOCK_SH,
                    Some(LockMode::Exclusive) => libc::LOCK_EX,
                };
                return self.flock(operation | if waits { 0 } else { libc::LOCK_NB });
            }
            (Locks::OfProcess, false) => libc::F_SETLK,
            (Locks::OfProcess, true) => libc::F_SETLKW,
            (Locks::OfDescription, false) => libc::F_OFD_SETLK,
            (Locks::OfDescription, true) => libc::F_OFD_SETLKW,
        };
        control(self.file, command, &Self::about(mode, range))
    }

    /// Takes a lock, or says that a process of this kernel has one.
    pub fn try_lock(&self, mode: LockMode, range: LockRange) -> Result<(), Errno> {
        answered(self.set(Some(mode), range, false)).map_err(|error| match error {
            Errno::ACCESS => Errno::AGAIN,
            other => other,
        })
    }

    /// Waits for a lock, as C answers it.
    pub fn wait(&self, mode: LockMode, range: LockRange) -> c_int {
        self.set(Some(mode), range, true)
    }

    pub fn unlock(&self, range: LockRange) -> Result<(), Errno> {
        answered(self.set(None, range, false))
    }

    /// What keeps a lock from being granted in this kernel.
    pub fn conflict(&self, mode: LockMode, range: LockRange) -> Result<libc::flock, Errno> {
        let of_process = self.locks == Locks::OfProcess;
        let command = if of_process { libc::F_GETLK } else { libc::F_OFD_GETLK };
        let mut about = Self::about(Some(mode), range);
        let words = [self.file as usize, command as usize, (&raw mut about).addr()];
        // SAFETY: the structure is this function's own; the call writes it.
        answered(unsafe { system_call(libc::SYS_fcntl, words) as c_int }).map(|()| about)
    }
}
