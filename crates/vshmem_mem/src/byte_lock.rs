//! Locks on single bytes of a file that belong to the open file (F_OFD_SETLK): closing another
//! descriptor of the same file does not release them, and they end when the last descriptor of this
//! open file is closed, however its process ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Locks a byte for writing; false when another open file has it locked. Does not wait.
pub fn try_lock_byte(file: impl AsFd, byte: i64) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, &mut record(byte, libc::F_WRLCK)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        answer => answer.map(|()| true),
    }
}

/// Releases it.
pub fn unlock_byte(file: impl AsFd, byte: i64) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, &mut record(byte, libc::F_UNLCK))
}

/// Whether another open file has it locked.
pub fn is_byte_locked(file: impl AsFd, byte: i64) -> io::Result<bool> {
    let mut answer = record(byte, libc::F_WRLCK);
    control(file, libc::F_OFD_GETLK, &mut answer)?;
    Ok(answer.l_type != libc::F_UNLCK as libc::c_short)
}

fn record(byte: i64, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
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
