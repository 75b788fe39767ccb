//! /dev/shm, where pools of this machine lie, and wait words of every kind.

use rustix::fs::{Access, access, statfs, statvfs};
use rustix::io::Errno;

use super::line::Line;
use crate::size;

const WHAT: &str = "/dev/shm";
/// What a private pool should have, below which it is made smaller.
const ENOUGH: u64 = 256 << 20;
/// Kinds of file systems that are memory, as linux/magic.h numbers them: tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What was found of it.
#[derive(Debug, Clone, Copy)]
struct SharedMemoryMount {
    is_memory: bool,
    is_writable: bool,
    free: u64,
    total: u64,
}

/// How it is here.
pub fn line() -> Line {
    // In a guest that has been given a pool no private one is made.
    let is_given = !vshmem_session::list_devices().is_empty();
    judge(look(), is_given)
}

fn look() -> Result<SharedMemoryMount, Errno> {
    let (kind, room) = (statfs(WHAT)?.f_type, statvfs(WHAT)?);
    Ok(SharedMemoryMount {
        is_memory: MEMORY.contains(&(kind as u64 & 0xffff_ffff)),
        is_writable: access(WHAT, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        free: room.f_bavail * room.f_frsize,
        total: room.f_blocks * room.f_frsize,
    })
}

fn judge(found: Result<SharedMemoryMount, Errno>, is_given: bool) -> Line {
    const MOUNT: &str = "`mkdir -p /dev/shm && mount -t tmpfs -o size=50%,mode=1777 tmpfs /dev/shm`; for a container: `--shm-size=1g`";
    let SharedMemoryMount { is_memory, is_writable, free, total } = match found {
        Ok(mount) => mount,
        Err(errno) => return Line::bad(WHAT, errno.to_string(), MOUNT),
    };
    let room = format!("{} free of {}", size::show(free), size::show(total));
    if !is_memory {
        let found = format!("{room}, on a file system that is no memory: a pool would be on disk");
        return Line::bad(WHAT, found, MOUNT);
    }
    if !is_writable {
        let found = format!("{room}, and closed to you");
        return Line::bad(WHAT, found, "as root: `chmod 1777 /dev/shm`");
    }
    if free < ENOUGH && !is_given {
        let found = format!("{room}: too little for a private pool of its usual size");
        return Line::bad(
            WHAT,
            found,
            "`mount -o remount,size=50% /dev/shm`; for a container: `--shm-size=1g`",
        );
    }
    Line::good(WHAT, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_memory_too_small_closed_or_missing_has_a_remedy() {
        let good =
            SharedMemoryMount { is_memory: true, is_writable: true, free: 1 << 30, total: 2 << 30 };
        assert!(judge(Ok(good), false).good);
        let little = SharedMemoryMount { free: 1 << 20, ..good };
        assert!(judge(Ok(little), true).remedy.is_none(), "a guest that has a pool");
        for found in [
            Ok(little),
            Ok(SharedMemoryMount { is_memory: false, ..good }),
            Ok(SharedMemoryMount { is_writable: false, ..good }),
            Err(Errno::NOENT),
        ] {
            let line = judge(found, false);
            assert!(!line.good && line.has_command(), "{line:?}");
        }
    }
}
