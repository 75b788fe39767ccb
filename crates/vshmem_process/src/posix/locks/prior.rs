//! What a process holds before it waits for a lock in the kernel: if the lock has to be given up
//! again, exactly that is to be left.
//!
//! The kernel tells it by /proc alone (proc_pid_fdinfo(5)): F_GETLK does not speak of the caller's
//! own locks.

use arrayvec::ArrayVec;
use libc::c_int;
use vshmem_ipc::{Errno, LAST_BYTE, LockMode, LockRange, LockRequest};

use super::kernel::{Kernel, Locks};
use crate::next::system_call;
use crate::{errno, process};

/// Locks of one process on one object that are told apart.
const MOST: usize = 64;
/// Bytes of a line, and of what is read at once.
const ROOM: usize = 1024;

/// What is held.
#[derive(Debug, Default)]
pub(super) struct Prior(ArrayVec<(LockRange, LockMode), MOST>);

impl Prior {
    /// What the process, or the description, holds now. `None` when the kernel does not tell, or
    /// that is too much.
    pub fn of(kernel: &Kernel) -> Option<Self> {
        errno::untouched(|| {
            let path = crate::object_descriptors::marker::path_of_locks(kernel.file as u32);
            let words =
                [libc::AT_FDCWD as usize, path.as_ptr().addr(), libc::O_CLOEXEC as usize, 0];
            // SAFETY: the path ends with a null.
            let file = unsafe { system_call(libc::SYS_openat, words) };
            if file < 0 {
                return None;
            }
            let prior = read_all(file as c_int, kernel.locks);
            // SAFETY: it was opened just now, and no other code knows it.
            unsafe { system_call(libc::SYS_close, [file as usize]) };
            prior
        })
    }

    /// Gives up what the kernel has granted beyond this.
    pub fn restore(&self, kernel: &Kernel, request: &LockRequest) -> Result<(), Errno> {
        let mut next = request.range.start;
        let mut held = self.0.clone();
        held.sort_unstable_by_key(|(range, _)| range.start);
        for (range, mode) in held {
            let start = range.start.max(next);
            let last = range.last.min(request.range.last);
            if start > last {
                continue;
            }
            if start > next {
                kernel.unlock(LockRange { start: next, last: start - 1 })?;
            }
            if mode < request.mode {
                kernel.try_lock(mode, LockRange { start, last })?;
            }
            next = last + 1;
        }
        if next > request.range.last {
            return Ok(());
        }
        kernel.unlock(LockRange { start: next, last: request.range.last })
    }
}

/// Reads line by line.
fn read_all(file: c_int, locks: Locks) -> Option<Prior> {
    let mut prior = Prior::default();
    let mut room = [0u8; ROOM];
    let mut used = 0;
    let pid = process::own_pid() as c_int;
    loop {
        let free = &mut room[used..];
        let words = [file as usize, free.as_mut_ptr().addr(), free.len()];
        // SAFETY: the room is as long as is said.
        let read = unsafe { system_call(libc::SYS_read, words) };
        if read <= 0 {
            return (read == 0).then_some(prior);
        }
        used += read as usize;
        while let Some(end) = room[..used].iter().position(|&byte| byte == b'\n') {
            if let Some(found) = lock_of(&room[..end], locks, pid) {
                prior.0.try_push(found).ok()?;
            }
            room.copy_within(end + 1..used, 0);
            used -= end + 1;
        }
        if used == ROOM {
            return None;
        }
    }
}

/// `lock:  1: POSIX  ADVISORY  WRITE 23435 00:01:489421 18 21`
fn lock_of(line: &[u8], locks: Locks, pid: c_int) -> Option<(LockRange, LockMode)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("lock:")?.split_ascii_whitespace().skip(1);
    let kind = words.next()?;
    let mode = match words.nth(1)? {
        "WRITE" => LockMode::Exclusive,
        _ => LockMode::Shared,
    };
    let of: c_int = words.next()?.parse().ok()?;
    let start = words.nth(1)?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => LAST_BYTE,
        last => last.parse().ok()?,
    };
    let is_own = match locks {
        // Those of a parent that has the description in common are shown as well.
        Locks::OfProcess => kind == "POSIX" && of == pid,
        Locks::OfDescription => kind == "OFDLCK",
        Locks::Whole => false,
    };
    is_own.then_some((LockRange { start, last }, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = b"lock:\t1: POSIX  ADVISORY  WRITE 23435 00:01:489421 18 21";
        let held = Some((LockRange { start: 18, last: 21 }, LockMode::Exclusive));
        assert_eq!(lock_of(line, Locks::OfProcess, 23435), held);
        assert_eq!(lock_of(line, Locks::OfProcess, 1), None, "a parent's");
        assert_eq!(lock_of(line, Locks::OfDescription, 23435), None);
        let line = b"lock:\t2: OFDLCK ADVISORY  READ  -1 00:01:489421 0 EOF";
        let held = Some((LockRange::WHOLE, LockMode::Shared));
        assert_eq!(lock_of(line, Locks::OfDescription, 1), held);
        assert_eq!(lock_of(b"pos:\t0", Locks::OfProcess, 1), None);
    }
}
