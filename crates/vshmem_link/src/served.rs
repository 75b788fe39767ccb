//! The host's doorbell: processes of the host cannot hold the event descriptors of guests, so they
//! ask the pool's server (`vshmem pool serve`) to notify, with one datagram.
//!
//! No descriptor is kept between two notifications: none can be closed by the program, inherited by
//! a child or mistaken for another. Nothing here uses the heap after [`Served::of`].

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use vshmem_sync::Doorbell;

/// Where servers have their sockets.
const DIRECTORY: &str = "/run/vshmem/serve";
/// How long a notification may take when the server has many to do. Its loss costs a waiter a
/// second.
const TIMEOUT: Duration = Duration::from_millis(2);

/// Where the server of a pool takes notifications from processes of the host.
#[must_use]
pub fn control_socket(pool: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{pool}.control"))
}

/// A doorbell that goes through the pool's server.
#[derive(Debug)]
pub struct Served {
    socket: CString,
}

impl Served {
    /// The doorbell of a pool's host side, by the pool's name. There need not be a server.
    #[must_use]
    pub fn of(pool: &str) -> Self {
        Self::at(&control_socket(pool))
    }

    /// The same, by the path of the socket.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        let path = socket.as_os_str().as_encoded_bytes().to_vec();
        Self { socket: CString::new(path).unwrap_or_default() }
    }
}

impl Doorbell for Served {
    fn own_address(&self) -> Option<u32> {
        // The server knows, and says so in the pool.
        None
    }

    fn notify(&self, address: u32) -> Result<(), Errno> {
        use std::io::Write;
        let mut word = [0u8; 16];
        let mut rest = &mut word[..];
        write!(rest, "ring {address}").map_err(|_| Errno::INVAL)?;
        let used = 16 - rest.len();
        let server = SocketAddrUnix::new(self.socket.as_c_str())?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let send = |flags| {
            rustix::net::sendto(&socket, &word[..used], flags | SendFlags::NOSIGNAL, &server)
        };
        match send(SendFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
                send(SendFlags::empty()).map(drop)
            }
            other => other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_notification_is_one_datagram() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let server = UnixDatagram::bind(&path).unwrap();
        let doorbell = Served::at(&path);
        doorbell.notify(0).unwrap();
        doorbell.notify(u32::MAX).unwrap();
        let mut word = [0; 64];
        for expected in ["ring 0", "ring 4294967295"] {
            let used = server.recv(&mut word).unwrap();
            assert_eq!(&word[..used], expected.as_bytes());
        }
    }

    #[test]
    fn without_a_server_a_notification_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        assert_eq!(Served::at(&path).notify(1), Err(Errno::NOENT));
        drop(UnixDatagram::bind(&path).unwrap());
        assert_eq!(Served::at(&path).notify(1), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn a_stopped_server_does_not_block_a_notifier() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let _server = UnixDatagram::bind(&path).unwrap();
        let doorbell = Served::at(&path);
        let refused = (0..100_000).find_map(|_| doorbell.notify(1).err());
        assert_eq!(refused, Some(Errno::AGAIN));
    }
}
