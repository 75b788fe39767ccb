//! A connection between a client and a guest's agent, over whatever it goes.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// A stream socket: TCP over the lab's network, or an end of a connection over a guest's serial
/// port.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<OwnedFd>);

impl Connection {
    /// Small pieces are sent at once.
    pub(crate) fn new(socket: impl Into<OwnedFd>) -> Self {
        let socket = socket.into();
        // Only TCP holds them back.
        let _ = set_tcp_nodelay(&socket, true);
        Connection(Arc::new(socket))
    }

    /// How long a reader waits.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, Some(timeout))?)
    }

    /// Ends it in both directions.
    pub(crate) fn end(&self) {
        // Ended already: as well.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, bytes, RecvFlags::empty())?.0)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
