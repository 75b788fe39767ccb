//! The lab's directory: what is where, and the lock that guards the naming of labs.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Doing, Error, Result};
use crate::model::names::domain;

/// The directory that holds all labs of this user.
pub(crate) fn root() -> PathBuf {
    if let Some(dir) = std::env::var_os("VSHMEM_LAB_DIR") {
        // The keeper works elsewhere: a relative name must mean the same there.
        return std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(dir));
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/vshmem-lab");
    }
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || PathBuf::from("/run/vshmem-lab"),
        |dir| PathBuf::from(dir).join("vshmem-lab"),
    )
}

/// The files of one lab.
#[derive(Debug, Clone)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// The directory of the lab `name`, whether it exists or not.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err(Error::Argument {
                what: "the lab's name",
                value: name.to_owned(),
                rule: "letters, digits, '-' and '_', at most 32 of them, as in `vshmem lab --name lab2 up --guest uml`",
            });
        }
        Ok(Directory(root().join(name)))
    }

    pub(crate) fn at(path: PathBuf) -> Self {
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What the lab is: written by `up` before anything is started.
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("lab.json")
    }

    /// Where the keeper answers.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("keeper.sock")
    }

    pub(crate) fn keeper_log(&self) -> PathBuf {
        self.0.join("keeper.log")
    }

    pub(crate) fn server_log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// Programs for the guests, readable by their users.
    pub(crate) fn stage(&self) -> PathBuf {
        self.0.join("stage")
    }

    /// A library for the kernel of guests that are processes of the host.
    pub(crate) fn registers(&self) -> PathBuf {
        self.0.join("registers.so")
    }

    /// What guests with firmware boot from: a kernel and an initial file system.
    pub(crate) fn kernel(&self) -> PathBuf {
        self.0.join("kernel")
    }

    pub(crate) fn ramdisk(&self) -> PathBuf {
        self.0.join("ramdisk")
    }

    /// The initial file system of guests that have no other: those of Xen.
    pub(crate) fn guest_ramdisk(&self) -> PathBuf {
        self.0.join("guest-ramdisk")
    }

    /// Where the keeper mounts a tmpfs that only it and the guests' monitors see.
    pub(crate) fn private(&self) -> PathBuf {
        self.0.join("private")
    }

    /// The private directory of one guest's monitor: its memory file is there.
    pub(crate) fn private_of(&self, guest: u32) -> PathBuf {
        self.private().join(domain(guest))
    }

    /// The files of one guest.
    pub(crate) fn guest(&self, guest: u32) -> PathBuf {
        self.0.join(domain(guest))
    }

    pub(crate) fn console(&self, guest: u32) -> PathBuf {
        self.guest(guest).join("console.log")
    }

    /// The orders for the guest's PID 1.
    pub(crate) fn boot(&self, guest: u32) -> PathBuf {
        self.guest(guest).join("boot.json")
    }

    /// Removes it.
    pub(crate) fn remove_contents(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).doing(|| format!("remove {:?}", self.0))
            }
            _ => Ok(()),
        }
    }

    /// Removes it, and the directory of all labs if this was the last.
    pub(crate) fn remove(&self) -> Result<()> {
        self.remove_contents()?;
        // Not empty: another lab is there.
        let _ = std::fs::remove_dir(root());
        Ok(())
    }
}

/// Makes a directory that every guest's user can enter, whatever the umask.
pub(crate) fn open_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).doing(|| format!("create {path:?}"))?;
    set_mode(path, 0o755)
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .doing(|| format!("set mode {mode:o} on {path:?}"))
}

/// How long others may hold the lock; a lab that begins holds it while its files are made.
const HELD: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_millis(5);

/// The lock under which labs get and give up their names and users. Released on drop.
pub(crate) struct NamingLock(#[allow(dead_code)] File);

impl NamingLock {
    /// Waits for the lock; it is only ever held for moments, unless its holder is stopped.
    pub(crate) fn take() -> Result<Self> {
        Self::take_in(&root(), HELD)
    }

    fn take_in(root: &Path, within: Duration) -> Result<Self> {
        let locking = || format!("lock {root:?}: `lslocks` shows who holds it; is it stopped?");
        let end = Instant::now() + within;
        loop {
            open_directory(root)?;
            let dir = File::open(root).doing(|| format!("open {root:?}"))?;
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::AGAIN) if Instant::now() < end => {
                    std::thread::sleep(AGAIN);
                    continue;
                }
                Err(Errno::AGAIN) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::TimedOut)).doing(locking);
                }
                other => other.doing(locking)?,
            }
            let locked = dir.metadata().doing(|| format!("stat {root:?}"))?;
            // The last lab down removes the directory: what is locked must still be what the path
            // names.
            match std::fs::metadata(root) {
                Ok(named) if named.dev() == locked.dev() && named.ino() == locked.ino() => {
                    return Ok(NamingLock(dir));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_up_is_not_waited_for_without_end() {
        let root = tempfile::tempdir().unwrap();
        let first = NamingLock::take_in(root.path(), Duration::ZERO).unwrap();
        let refused = NamingLock::take_in(root.path(), AGAIN).err().unwrap().to_string();
        assert!(refused.contains("`lslocks`"), "{refused}");
        drop(first);
        NamingLock::take_in(root.path(), Duration::ZERO).unwrap();
    }
}
