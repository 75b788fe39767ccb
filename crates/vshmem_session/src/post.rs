//! Posts of a pool: locks that at most one process holds each, the agent of a domain or the server.
//!
//! A post is a lock on one byte of the pool's own file or device: so only who may use the pool can
//! take it, domains of one kernel do not get in each other's way, no file is left behind, and it
//! ends with its holder however that ends. The lock belongs to the open file (F_OFD_SETLK), so
//! closing others changes nothing.

use std::fs::{File, OpenOptions};
use std::path::Path;

use vshmem_link::domain_facts;
use vshmem_mem::{is_byte_locked, try_lock_byte, unlock_byte};

/// What a post is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// The agent of the calling domain: the byte that the number of its PID namespace names.
    Agent,
    /// The server of the pool, one for all domains: a byte behind every agent's.
    Server,
}

impl Duty {
    fn byte(self) -> std::io::Result<i64> {
        match self {
            Duty::Agent => {
                let facts = domain_facts().map_err(std::io::Error::other)?;
                Ok(i64::from(facts.pid_namespace))
            }
            Duty::Server => Ok(1 << 33),
        }
    }

    /// Whether somebody has this post for the pool at `place` now.
    #[must_use]
    pub fn is_manned(self, place: &Path) -> bool {
        let Ok(byte) = self.byte() else { return false };
        open(place).and_then(|file| is_byte_locked(&file, byte)).unwrap_or(false)
    }
}

fn open(place: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(place)
}

/// A post, held. Given up on drop.
#[derive(Debug)]
pub struct Post {
    byte: i64,
    file: File,
}

impl Post {
    /// Takes the post; `None` when somebody has it.
    pub fn take(duty: Duty, place: &Path) -> std::io::Result<Option<Self>> {
        let (byte, file) = (duty.byte()?, open(place)?);
        Ok(try_lock_byte(&file, byte)?.then_some(Self { byte, file }))
    }

    /// Whether the pool has been removed: its path is gone or means another file.
    #[must_use]
    pub fn is_orphaned(&self, place: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let held = self.file.metadata().map(identity).ok();
        held != std::fs::metadata(place).map(identity).ok()
    }
}

/// Closing would do if the file were open here alone; a child between fork and exec has it too.
impl Drop for Post {
    fn drop(&mut self) {
        let _ = unlock_byte(&self.file, self.byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_a_post_and_posts_are_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (duty, other) in [(Duty::Agent, Duty::Server), (Duty::Server, Duty::Agent)] {
            assert!(!duty.is_manned(file.path()));
            let post = Post::take(duty, file.path()).unwrap().unwrap();
            assert!(duty.is_manned(file.path()));
            assert!(!other.is_manned(file.path()));
            assert!(Post::take(duty, file.path()).unwrap().is_none());
            assert!(!post.is_orphaned(file.path()));
            drop(post);
            assert!(!duty.is_manned(file.path()));
        }
    }

    #[test]
    fn a_post_left_is_free_though_a_child_still_has_the_file_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let post = Post::take(Duty::Agent, file.path()).unwrap().unwrap();
        let inherited = post.file.try_clone().unwrap();
        drop(post);
        assert!(!Duty::Agent.is_manned(file.path()));
        assert!(Post::take(Duty::Agent, file.path()).unwrap().is_some());
        drop(inherited);
    }
}
