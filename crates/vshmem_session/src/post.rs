//! Posts of a pool: locks that at most one process holds each, the agent of a domain or the server.
//!
//! A post is a lock on one byte of the pool's own file or device: so only who may use the pool can
//! take it, domains of one kernel do not get in each other's way, no file is left behind, and it
//! ends with its holder however that ends. The lock belongs to the open file (F_OFD_SETLK), so
//! closing others changes nothing.

use std::fs::{File, OpenOptions};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use vshmem_link::domain_facts;

/// What a post is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// The agent of the calling domain: the byte that the number of its PID namespace names.
    Agent,
    /// The server of the pool, one for all domains: a byte behind every agent's.
    Server,
}

impl Duty {
    fn byte(self) -> std::io::Result<libc::off_t> {
        match self {
            Duty::Agent => {
                let facts = domain_facts().map_err(std::io::Error::other)?;
                Ok(libc::off_t::from(facts.pid_namespace))
            }
            Duty::Server => Ok(1 << 33),
        }
    }

    /// Whether somebody has this post for the pool at `place` now.
    #[must_use]
    pub fn is_manned(self, place: &Path) -> bool {
        let Ok(byte) = self.byte() else { return false };
        let mut answer = lock(byte, libc::F_WRLCK);
        open(place).is_ok_and(|file| {
            fcntl(&file, FcntlArg::F_OFD_GETLK(&mut answer)).is_ok()
                && answer.l_type != libc::F_UNLCK as libc::c_short
        })
    }
}

fn lock(byte: libc::off_t, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

fn open(place: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(place)
}

/// A post, held. Given up on drop.
#[derive(Debug)]
pub struct Post {
    byte: libc::off_t,
    file: File,
}

impl Post {
    /// Takes the post; `None` when somebody has it.
    pub fn take(duty: Duty, place: &Path) -> std::io::Result<Option<Self>> {
        let (byte, file) = (duty.byte()?, open(place)?);
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock(byte, libc::F_WRLCK))) {
            Ok(_) => Ok(Some(Self { byte, file })),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
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
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock(self.byte, libc::F_UNLCK)));
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
