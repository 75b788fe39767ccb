//! Access control: a process may connect if it may open the pool's file.
//!
//! The socket's own mode is the first wall, kept by the kernel. This is the second: it holds where
//! another process has changed the socket's mode, or handed a connected socket on.

use std::fs::Metadata;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

/// Owner, group and mode of the pool's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    pub owner: u32,
    pub group: u32,
    pub mode: u32,
}

/// The process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its pid; 0 when it has none in this PID namespace.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Caller {
    /// Asks the kernel.
    pub fn of(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        Ok(Self {
            // A process of a PID namespace that is not below this one is shown as 0.
            pid: u32::try_from(rustix::process::Pid::as_raw(Some(credentials.pid))).unwrap_or(0),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
        })
    }
}

impl Admission {
    /// The processes that may open this file.
    pub fn of(file: &Metadata) -> Self {
        Self { owner: file.uid(), group: file.gid(), mode: file.mode() & 0o666 }
    }

    /// Whether that process could open the pool's file for reading and writing; `groups`: its
    /// further ones. As the kernel decides it: of owner, group and all others, the first that
    /// fits counts.
    pub fn admits(&self, caller: Caller, groups: &[u32]) -> bool {
        let both = |shift: u32| self.mode >> shift & 0o6 == 0o6;
        if caller.uid == 0 {
            return true;
        }
        if caller.uid == self.owner {
            return both(6);
        }
        if caller.gid == self.group || groups.contains(&self.group) {
            return both(3);
        }
        both(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_open_the_pool_may_connect() {
        let pool = Admission { owner: 1000, group: 100, mode: 0o660 };
        let caller = |uid, gid| Caller { pid: 0, uid, gid };
        assert!(pool.admits(caller(0, 0), &[]));
        assert!(pool.admits(caller(1000, 5), &[]));
        assert!(pool.admits(caller(7, 100), &[]));
        assert!(!pool.admits(caller(7, 7), &[]));
        let alone = Admission { mode: 0o600, ..pool };
        assert!(!alone.admits(caller(7, 100), &[]));
        let all_users = Admission { mode: 0o666, ..pool };
        assert!(all_users.admits(caller(7, 7), &[]));
        let read_only = Admission { mode: 0o664, ..pool };
        assert!(!read_only.admits(caller(7, 7), &[]));
        assert!(pool.admits(caller(7, 7), &[5, 100]));
        let not_the_group = Admission { mode: 0o606, ..pool };
        assert!(
            !not_the_group.admits(caller(7, 100), &[])
                && !not_the_group.admits(caller(7, 7), &[100])
        );
    }

    #[test]
    fn the_other_end_of_a_socket_is_known() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let caller = Caller::of(std::os::fd::AsFd::as_fd(&near)).unwrap();
        assert_eq!(caller.pid, std::process::id());
        assert_eq!(caller.uid, rustix::process::geteuid().as_raw());
    }
}
