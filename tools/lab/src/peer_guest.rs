//! Running commands in a guest from inside a peer guest.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::error::{Doing, Error, GuestFault, Result};
use crate::init::orders::orders;
use crate::model::boot::ORDERS;
use crate::model::names::{AGENT_PORT, address};
use crate::transport::connection::Connection;
use crate::transport::relay::relay;
use crate::transport::request::{ExecRequest, Streams};

/// Is this process in a guest of a lab?
pub fn in_guest() -> bool {
    Path::new(ORDERS).exists()
}

/// Runs a command in a peer guest, from inside a guest (as root, in a lab that allows it). Returns
/// its exit code; 128 + n after signal n.
pub fn exec_in_peer(guest: u32, request: &ExecRequest, streams: Streams) -> Result<i32> {
    let boot = orders()?;
    if guest == 0 || guest > boot.count {
        return Err(Error::NoSuchGuest { name: "of this guest".into(), guest, count: boot.count });
    }
    let token = match boot.peers.get(guest as usize - 1) {
        Some(token) => token.clone(),
        None if guest == boot.guest => boot.token,
        None => {
            return Err(Error::Refused {
                guest,
                why: "this lab does not let guests run commands in each other".into(),
            });
        }
    };
    let to = SocketAddr::from((address(guest), AGENT_PORT));
    let connection = TcpStream::connect_timeout(&to, Duration::from_secs(5))
        .map_err(|error| GuestFault::Unreachable { guest, why: error.to_string() })?;
    // A guest gets no notice that its peer guest has died, so the connection must find out.
    let watched = || -> rustix::io::Result<()> {
        rustix::net::sockopt::set_socket_keepalive(&connection, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&connection, Duration::from_secs(30))?;
        rustix::net::sockopt::set_tcp_keepintvl(&connection, Duration::from_secs(10))?;
        rustix::net::sockopt::set_tcp_keepcnt(&connection, 6)
    };
    watched().doing(|| "watch the connection".into())?;
    relay(guest, Connection::new(connection), None, request, token, streams)
}
