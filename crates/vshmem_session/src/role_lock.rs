//! Roles in a pool that at most one process has: the agent of a domain, its keeper, the server.
//! There is a lock for each.
//!
//! A role lock is a lock on one byte of the pool's own file or device. So only a user that may use
//! the pool can take it, each domain has its own, no file is left behind, and the kernel releases
//! it when its holder ends. The lock belongs to the open file (F_OFD_SETLK): closing other
//! descriptors of the file does not release it.

use std::fs::{File, OpenOptions};
use std::path::Path;

use vshmem_link::domain_facts;
use vshmem_mem::{is_byte_locked, try_lock_byte, unlock_byte};

/// What the process does that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The agent of the calling domain: the byte that the number of its PID namespace names.
    Agent,
    /// The server of the pool, one for all domains: a byte behind every agent's.
    Server,
    /// Keeps an agent in the calling domain for as long as the pool exists: a byte behind the
    /// server's, for each domain.
    PermanentAgent,
}

impl Role {
    fn byte(self) -> std::io::Result<i64> {
        let of_domain = || {
            let facts = domain_facts().map_err(std::io::Error::other)?;
            // A machine that has parted from its copies is another domain than before.
            Ok(i64::from(facts.apart) << 36 | i64::from(facts.pid_namespace))
        };
        match self {
            Role::Agent => of_domain(),
            Role::Server => Ok(1 << 33),
            Role::PermanentAgent => Ok((1 << 34) + of_domain()?),
        }
    }

    /// Whether a process has this role for the pool at `path` now.
    #[must_use]
    pub fn is_held(self, path: &Path) -> bool {
        let Ok(byte) = self.byte() else { return false };
        open(path).and_then(|file| is_byte_locked(&file, byte)).unwrap_or(false)
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// A role that this process has. Given up on drop.
#[derive(Debug)]
pub struct RoleLock {
    byte: i64,
    file: File,
}

impl RoleLock {
    /// Takes the role; `None` when another process has it.
    pub fn take(role: Role, path: &Path) -> std::io::Result<Option<Self>> {
        let (byte, file) = (role.byte()?, open(path)?);
        Ok(try_lock_byte(&file, byte)?.then_some(Self { byte, file }))
    }

    /// Whether the pool has been removed: its path is gone or means another file.
    #[must_use]
    pub fn is_orphaned(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let held = self.file.metadata().map(identity).ok();
        held != std::fs::metadata(path).map(identity).ok()
    }
}

/// Unlocks explicitly. Closing the file is not enough: a child between fork and exec still has it
/// open.
impl Drop for RoleLock {
    fn drop(&mut self) {
        let _ = unlock_byte(&self.file, self.byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_a_role_and_roles_are_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (role, other) in [
            (Role::Agent, Role::Server),
            (Role::Server, Role::Agent),
            (Role::PermanentAgent, Role::Agent),
        ] {
            assert!(!role.is_held(file.path()));
            let role_lock = RoleLock::take(role, file.path()).unwrap().unwrap();
            assert!(role.is_held(file.path()));
            assert!(!other.is_held(file.path()));
            assert!(RoleLock::take(role, file.path()).unwrap().is_none());
            assert!(!role_lock.is_orphaned(file.path()));
            drop(role_lock);
            assert!(!role.is_held(file.path()));
        }
    }

    #[test]
    fn a_role_left_is_free_though_a_child_still_has_the_file_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let role_lock = RoleLock::take(Role::Agent, file.path()).unwrap().unwrap();
        let inherited = role_lock.file.try_clone().unwrap();
        drop(role_lock);
        assert!(!Role::Agent.is_held(file.path()));
        assert!(RoleLock::take(Role::Agent, file.path()).unwrap().is_some());
        drop(inherited);
    }
}
