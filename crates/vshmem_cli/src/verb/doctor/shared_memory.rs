//! /dev/shm, where pools of this machine lie, and wait words of every kind.

use rustix::fs::{Access, StatVfsMountFlags, access, statfs, statvfs};
use rustix::io::Errno;
use vshmem_session::Memory;

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
    is_read_only: bool,
    free: u64,
    total: u64,
}

/// How it is here.
pub fn line() -> Line {
    // In a guest that has been given a pool no private one is made.
    let is_given = !vshmem_session::list_devices().is_empty();
    judge(look(), is_given, Memory::now())
}

fn look() -> Result<SharedMemoryMount, Errno> {
    let (kind, room) = (statfs(WHAT)?.f_type, statvfs(WHAT)?);
    Ok(SharedMemoryMount {
        is_memory: MEMORY.contains(&(kind as u64 & 0xffff_ffff)),
        is_writable: access(WHAT, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        is_read_only: room.f_flag.contains(StatVfsMountFlags::RDONLY),
        free: room.f_bavail * room.f_frsize,
        total: room.f_blocks * room.f_frsize,
    })
}

fn judge(found: Result<SharedMemoryMount, Errno>, is_given: bool, memory: Memory) -> Line {
    const MOUNT: &str = "`mkdir -p /dev/shm && mount -t tmpfs -o size=50%,mode=1777 tmpfs /dev/shm`; for a container: `--shm-size=1g`";
    let SharedMemoryMount { is_memory, is_writable, is_read_only, free, total } = match found {
        Ok(mount) => mount,
        Err(errno) => return Line::bad(WHAT, errno.to_string(), MOUNT),
    };
    let room = format!("{} free of {}", size::show(free), size::show(total));
    if !is_memory {
        let found = format!("{room}, on a file system that is no memory: a pool would be on disk");
        return Line::bad(WHAT, found, MOUNT);
    }
    if is_read_only {
        return Line::bad(
            WHAT,
            format!("{room}, and mounted read-only"),
            "as root: `mount -o remount,rw /dev/shm`; for a container: leave out `--read-only`",
        );
    }
    if !is_writable {
        let found = format!("{room}, and closed to you");
        return Line::bad(WHAT, found, "as root: `chmod 1777 /dev/shm`");
    }
    if free < ENOUGH && !is_given {
        let found = format!("{room}: too little for a private pool of its usual size");
        // Half of the memory, which is the usual size, must be more than it is and be there.
        let grows = total < memory.total / 2 && memory.to_give() >= ENOUGH;
        let remedy = match grows {
            true => {
                "as root: `mount -o remount,size=50% /dev/shm`; for a container: `--shm-size=1g`"
            }
            false => {
                "remove what nobody needs: `vshmem pool ls` shows the pools, `ls -lS /dev/shm` the rest"
            }
        };
        return Line::bad(WHAT, found, remedy);
    }
    Line::good(WHAT, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_memory_too_small_closed_or_missing_has_a_remedy() {
        let good = SharedMemoryMount {
            is_memory: true,
            is_writable: true,
            is_read_only: false,
            free: 1 << 30,
            total: 2 << 30,
        };
        let memory = Memory { total: 16 << 30, available: 8 << 30 };
        let judge = |found, is_given| judge(found, is_given, memory);
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

    #[test]
    fn a_remedy_is_one_that_works_there() {
        let full = SharedMemoryMount {
            is_memory: true,
            is_writable: true,
            is_read_only: false,
            free: 1 << 20,
            total: 234 << 20,
        };
        let small = Memory { total: 469 << 20, available: 200 << 20 };
        let large = Memory { total: 16 << 30, available: 8 << 30 };
        let remedy = |found, memory| judge(Ok(found), false, memory).remedy.unwrap();
        assert!(remedy(full, large).contains("size=50%"));
        for (found, memory) in [
            (full, small),
            (full, Memory { available: 1 << 30, ..large }),
            (SharedMemoryMount { total: 8 << 30, ..full }, large),
        ] {
            let remedy = remedy(found, memory);
            assert!(!remedy.contains("remount") && remedy.contains("ls"), "{remedy}");
        }
        let read_only = SharedMemoryMount { is_writable: false, is_read_only: true, ..full };
        let remedy = remedy(read_only, large);
        assert!(remedy.contains("remount,rw") && !remedy.contains("chmod"), "{remedy}");
    }
}
