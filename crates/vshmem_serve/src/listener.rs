//! Sockets with a name: made with the pool's mode, owner and group, and removed at the end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::admission::Admission;
use crate::directory::{Draft, Entry};

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Bound {
    socket: OwnedFd,
    entry: Entry,
    inode: (u64, u64),
}

/// Why a socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("something that is not a socket lies there")]
    NotASocket,
    #[error("a server answers there already")]
    Answered,
    #[error("its path is too long for a socket")]
    TooLong,
    #[error("{0}")]
    Failed(#[from] std::io::Error),
}

impl From<Errno> for BindError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::NAMETOOLONG { Self::TooLong } else { Self::Failed(errno.into()) }
    }
}

impl Bound {
    /// Binds a socket at `path`. One that is left over there is replaced; one that a server
    /// answers is not.
    pub fn new(path: &Path, kind: SocketType, admission: Admission) -> Result<Self, BindError> {
        // A peer that connects names this path.
        SocketAddrUnix::new(path)?;
        let entry = Entry::of(path)?;
        match entry.stat() {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Socket => {
                return Err(BindError::NotASocket);
            }
            Ok(_) if is_answered(&entry.path(), kind)? => return Err(BindError::Answered),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        // No process may write to the socket before it has its owner and mode: connecting asks for
        // write permission on the file, and binding makes it with what the umask leaves.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::empty())?;
        let draft = Draft::new(&entry)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(draft.path())?)?;
        share(&draft, admission)?;
        if kind == SocketType::STREAM {
            rustix::net::listen(&socket, 16)?;
        }
        let stat = draft.stat()?;
        draft.publish()?;
        Ok(Self { socket, entry, inode: (stat.st_dev, stat.st_ino) })
    }

    /// The socket that accepts peers.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Gives a socket the pool's owner, group and mode; fewer may use it where this process cannot.
fn share(draft: &Draft<'_>, admission: Admission) -> Result<(), Errno> {
    let stat = draft.stat()?;
    let mut mode = admission.mode;
    let owner = (stat.st_uid != admission.owner).then_some(admission.owner);
    let owned = owner.is_none() || draft.chown(owner, None).is_ok();
    let group = (stat.st_gid != admission.group).then_some(admission.group);
    if group.is_some() && draft.chown(None, group).is_err() {
        mode &= 0o606;
    }
    if !owned {
        mode |= 0o600;
    }
    draft.chmod(mode)
}

fn is_answered(path: &Path, kind: SocketType) -> Result<bool, BindError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        // A full backlog is a server's, too; another kind of socket may be alive as well.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Ok(true),
        Err(_) => Ok(false),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.entry.remove(|stat| (stat.st_dev, stat.st_ino) == self.inode);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn mine() -> Admission {
        Admission {
            owner: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            mode: 0o660,
        }
    }

    #[test]
    fn a_leftover_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = Bound::new(&path, SocketType::STREAM, mine()).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        let again = Bound::new(&path, SocketType::STREAM, mine());
        assert!(matches!(again, Err(BindError::Answered)), "{again:?}");
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "precious").unwrap();
        let bound = Bound::new(&path, SocketType::DGRAM, mine());
        assert!(matches!(bound, Err(BindError::NotASocket)));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let long = directory.path().join("x".repeat(200));
        let bound = Bound::new(&long, SocketType::DGRAM, mine());
        assert!(matches!(bound, Err(BindError::TooLong)), "{bound:?}");
    }

    #[test]
    fn the_socket_of_a_successor_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = Bound::new(&path, SocketType::STREAM, mine()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _second = Bound::new(&path, SocketType::STREAM, mine()).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn a_link_that_is_planted_is_neither_followed_nor_in_the_way() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = elsewhere.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::fs::set_permissions(&precious, std::fs::Permissions::from_mode(0o400)).unwrap();
        let path = directory.path().join("s");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The owner of the directory, who sees each name as soon as it is there.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
                        let (path, aside) = (entry.path(), directory.path().join("aside"));
                        if path != aside && std::fs::rename(&path, &aside).is_ok() {
                            let _ = symlink(&precious, &path);
                            let _ = std::fs::remove_file(&path);
                            let _ = std::fs::rename(&aside, &path);
                        }
                    }
                }
            });
            for _ in 0..300 {
                // It may fail; it may not do harm.
                drop(Bound::new(&path, SocketType::STREAM, Admission { mode: 0o666, ..mine() }));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let meta = std::fs::metadata(&precious).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.len()), (0o400, 8));
    }
}
