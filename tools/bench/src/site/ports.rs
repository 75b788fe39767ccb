//! Ports for servers that a measurement starts.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use super::place::Site;
use crate::error::{Error, Result};

/// The first of the ports used in guests, where nothing else listens.
const FIRST: u16 = 20_000;
const COUNT: u16 = 20_000;

/// Hands out ports, another one each time.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    turn: AtomicU16,
}

impl Ports {
    /// A free port at the second side.
    ///
    /// # Errors
    /// When this machine has none.
    pub fn next(&self, site: &dyn Site) -> Result<u16> {
        let address = site.address();
        if address.is_loopback() {
            let free = || -> std::io::Result<u16> {
                let port = TcpListener::bind((address, 0))?.local_addr()?.port();
                UdpSocket::bind((address, port))?;
                Ok(port)
            };
            return free().map_err(Error::io("find a free port"));
        }
        Ok(FIRST + self.turn.fetch_add(1, Ordering::Relaxed) % COUNT)
    }
}
