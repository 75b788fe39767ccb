//! The file of a domain that its threads sleep on, where pool memory does not allow it.
//!
//! `/dev/shm/vshmem-wait.UUID`, made by the first process of the domain that joins, with the mode
//! and the group of the pool's device: who can use the one can use the other. A word in it wakes
//! a sleeper to look again, and can do no more. A file that belongs to somebody else than root, the
//! pool's owner or the caller is refused, because its owner could shorten it under a sleeper.

use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file};

use crate::RegionError;

/// Opens the domain's wait file for a pool, makes it if there is none, and maps it.
///
/// # Errors
/// Says what was tried and what came back.
pub fn open_wait_file(
    uuid: &[u8; 16],
    bytes: usize,
    pool_owner: u32,
    device: &Path,
) -> Result<Mapping, RegionError> {
    let mut name = String::from("/dev/shm/vshmem-wait.");
    for byte in uuid {
        name.push_str(&format!("{byte:02x}"));
    }
    let place = PathBuf::from(name);
    let fail = |tried| move |errno| (tried, errno);
    let map = || -> Result<Mapping, (&'static str, Errno)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // An existing file of somebody else in a sticky directory must be opened without CREATE
        // (fs.protected_regular).
        let file = rustix::fs::open(&place, flags - OFlags::CREATE, Mode::empty())
            .or_else(|_| rustix::fs::open(&place, flags, Mode::from_raw_mode(0o600)))
            .map_err(fail("open it"))?;
        let stat = rustix::fs::fstat(&file).map_err(fail("look at it"))?;
        let me = rustix::process::geteuid().as_raw();
        if ![0, pool_owner, me].contains(&stat.st_uid) {
            return Err((
                "trust it: it belongs to neither root nor the pool's owner",
                Errno::ACCESS,
            ));
        }
        if stat.st_uid == me {
            let pool =
                rustix::fs::stat(device).map_err(fail("look at the pool's device for it"))?;
            if stat.st_gid != pool.st_gid {
                // A group that the caller is not in cannot be given; it has to do without then.
                let _ = rustix::fs::fchown(&file, None, Some(Gid::from_raw(pool.st_gid)));
            }
            let mode = Mode::from_raw_mode(pool.st_mode & 0o666);
            rustix::fs::fchmod(&file, mode).map_err(fail("share it"))?;
        }
        if (stat.st_size as u64) < bytes as u64 {
            rustix::fs::ftruncate(&file, bytes as u64).map_err(fail("size it"))?;
        }
        use std::os::fd::AsFd;
        // SAFETY: no address is given.
        unsafe { map_file(file.as_fd(), 0, bytes, Protection::READ_WRITE, None) }
            .map_err(fail("map it"))
    };
    map().map_err(|(tried, errno)| RegionError::Failed { place: place.clone(), tried, errno })
}
