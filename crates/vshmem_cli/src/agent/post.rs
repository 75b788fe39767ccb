//! The agent's post: a lock that at most one process of a domain holds per pool.
//!
//! It is a lock on one byte of the pool's own file or device, the byte that the number of the PID
//! namespace names: so only who may use the pool can take it, domains of one kernel do not get in
//! each other's way, no file is left behind, and it ends with its holder however that ends. The
//! lock belongs to the open file (F_OFD_SETLK), so closing others changes nothing.

use std::fs::{File, OpenOptions};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use vshmem_link::domain_facts;

/// The post, held.
#[derive(Debug)]
pub struct Post {
    file: File,
}

fn lock(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(domain_facts().pid_namespace),
        l_len: 1,
        l_pid: 0,
    }
}

fn open(place: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(place)
}

/// Whether this domain has an agent for the pool at `place`.
pub fn is_manned(place: &Path) -> bool {
    let mut answer = lock(libc::F_WRLCK);
    open(place).is_ok_and(|file| {
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut answer)).is_ok()
            && answer.l_type != libc::F_UNLCK as libc::c_short
    })
}

impl Post {
    /// Takes the post; `None` when somebody has it.
    pub fn take(place: &Path) -> std::io::Result<Option<Self>> {
        let file = open(place)?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK))) {
            Ok(_) => Ok(Some(Self { file })),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the pool has been removed: its path is gone or means another file.
    pub fn is_orphaned(&self, place: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let held = self.file.metadata().map(identity).ok();
        held != std::fs::metadata(place).map(identity).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_manned(file.path()));
        let post = Post::take(file.path()).unwrap().unwrap();
        assert!(is_manned(file.path()));
        assert!(Post::take(file.path()).unwrap().is_none());
        assert!(!post.is_orphaned(file.path()));
        drop(post);
        assert!(!is_manned(file.path()));
    }
}
