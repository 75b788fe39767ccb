//! Locks on bytes of a file that belong to the open file (F_OFD_SETLK): closing another
//! descriptor of the same file does not release them, and they end when the last descriptor of this
//! open file is closed, however its process ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of a file, and how they are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLock {
    /// Whether nobody else may have a lock on them.
    pub exclusive: bool,
    /// The first one.
    pub start: i64,
    /// How many; 0: all from there on.
    pub count: i64,
}

impl ByteLock {
    /// A single byte, for writing.
    const fn of_byte(byte: i64) -> Self {
        Self { exclusive: true, start: byte, count: 1 }
    }
}

/// Locks bytes; false when another open file, or a process, has a lock that conflicts. Does not
/// wait.
pub fn try_lock_bytes(file: impl AsFd, lock: ByteLock) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, &mut record(lock)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        answer => answer.map(|()| true),
    }
}

/// Releases bytes.
pub fn unlock_bytes(file: impl AsFd, lock: ByteLock) -> io::Result<()> {
    let unlocked = libc::F_UNLCK as libc::c_short;
    control(file, libc::F_OFD_SETLK, &mut libc::flock { l_type: unlocked, ..record(lock) })
}

/// A lock that keeps another one from being had, if there is one.
pub fn conflict_with(file: impl AsFd, lock: ByteLock) -> io::Result<Option<ByteLock>> {
    let mut found = record(lock);
    control(file, libc::F_OFD_GETLK, &mut found)?;
    let is_free = found.l_type == libc::F_UNLCK as libc::c_short;
    let exclusive = found.l_type == libc::F_WRLCK as libc::c_short;
    let there = ByteLock { exclusive, start: found.l_start, count: found.l_len };
    Ok((!is_free).then_some(there))
}

/// Locks a byte for writing; false when another open file has it locked. Does not wait.
pub fn try_lock_byte(file: impl AsFd, byte: i64) -> io::Result<bool> {
    try_lock_bytes(file, ByteLock::of_byte(byte))
}

/// Releases it.
pub fn unlock_byte(file: impl AsFd, byte: i64) -> io::Result<()> {
    unlock_bytes(file, ByteLock::of_byte(byte))
}

/// Whether another open file has it locked.
pub fn is_byte_locked(file: impl AsFd, byte: i64) -> io::Result<bool> {
    conflict_with(file, ByteLock::of_byte(byte)).map(|found| found.is_some())
}

fn record(lock: ByteLock) -> libc::flock {
    let kind = if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: lock.start,
        l_len: lock.count,
        // The kernel demands it of such locks.
        l_pid: 0,
    }
}

fn control(file: impl AsFd, command: libc::c_int, record: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the call reads and writes this structure
    // alone.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, record) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
