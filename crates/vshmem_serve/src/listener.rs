//! Sockets with a name: made with the pool's mode, owner and group, and removed at the end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::admission::Admission;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Bound {
    socket: OwnedFd,
    place: PathBuf,
    inode: (u64, u64),
}

/// Why a socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("something that is not a socket lies there")]
    NotASocket,
    #[error("somebody answers there already")]
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
    /// Binds a socket at `place`. One that is left over there is replaced; one that somebody
    /// answers is not.
    pub fn new(place: &Path, kind: SocketType, admission: Admission) -> Result<Self, BindError> {
        match std::fs::symlink_metadata(place) {
            Ok(meta) if !meta.file_type().is_socket() => return Err(BindError::NotASocket),
            Ok(_) if is_answered(place, kind)? => return Err(BindError::Answered),
            _ => {}
        }
        let mut draft = place.as_os_str().to_owned();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        // Left over from a server that was killed just then.
        let _ = std::fs::remove_file(&draft);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        // Nobody may write to the socket before it has its owner and mode: connecting asks for
        // write permission on the file, and binding makes it with what the umask leaves.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::empty())?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&draft)?)?;
        let finish = || -> Result<(u64, u64), BindError> {
            share(&draft, admission)?;
            if kind == SocketType::STREAM {
                rustix::net::listen(&socket, 16)?;
            }
            let meta = std::fs::symlink_metadata(&draft)?;
            std::fs::rename(&draft, place)?;
            Ok((meta.dev(), meta.ino()))
        };
        match finish() {
            Ok(inode) => Ok(Self { socket, place: place.to_owned(), inode }),
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Gives a socket the pool's owner, group and mode; fewer may use it where this process cannot.
fn share(place: &Path, admission: Admission) -> std::io::Result<()> {
    let meta = std::fs::symlink_metadata(place)?;
    let mut mode = admission.mode;
    let owner = (meta.uid() != admission.owner).then_some(admission.owner);
    let owned = owner.is_none() || std::os::unix::fs::chown(place, owner, None).is_ok();
    let group = (meta.gid() != admission.group).then_some(admission.group);
    if group.is_some() && std::os::unix::fs::chown(place, None, group).is_err() {
        mode &= 0o606;
    }
    if !owned {
        mode |= 0o600;
    }
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode))
}

fn is_answered(place: &Path, kind: SocketType) -> Result<bool, BindError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(place)?) {
        // A full backlog is somebody's, too; another kind of socket may be alive as well.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Ok(true),
        Err(_) => Ok(false),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let meta = std::fs::symlink_metadata(&self.place);
        if meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode) {
            let _ = std::fs::remove_file(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let place = directory.path().join("s");
        drop(UnixListener::bind(&place).unwrap());
        assert!(place.exists());
        let bound = Bound::new(&place, SocketType::STREAM, mine()).unwrap();
        UnixStream::connect(&place).unwrap();
        assert_eq!(std::fs::metadata(&place).unwrap().mode() & 0o777, 0o660);
        let again = Bound::new(&place, SocketType::STREAM, mine());
        assert!(matches!(again, Err(BindError::Answered)), "{again:?}");
        drop(bound);
        assert!(!place.exists());
    }

    #[test]
    fn other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("f");
        std::fs::write(&place, "precious").unwrap();
        let bound = Bound::new(&place, SocketType::DGRAM, mine());
        assert!(matches!(bound, Err(BindError::NotASocket)));
        assert_eq!(std::fs::read(&place).unwrap(), b"precious");
        let long = directory.path().join("x".repeat(200));
        let bound = Bound::new(&long, SocketType::DGRAM, mine());
        assert!(matches!(bound, Err(BindError::TooLong)), "{bound:?}");
    }

    #[test]
    fn the_socket_of_a_successor_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("s");
        let first = Bound::new(&place, SocketType::STREAM, mine()).unwrap();
        std::fs::remove_file(&place).unwrap();
        let _second = Bound::new(&place, SocketType::STREAM, mine()).unwrap();
        drop(first);
        assert!(place.exists());
    }
}
