//! The agent of a guest: accepts clients and gives each a session of its own.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use crate::error::{Doing, Result};
use crate::init::{port, session};
use crate::model::boot::{Boot, READY};
use crate::model::names::AGENT_PORT;
use crate::transport::connection::Connection;

/// Serves clients until the guest ends: those that come over the network, and those that the keeper
/// lets in by the guest's serial port, if it has one.
pub(super) fn serve(boot: &Boot) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, AGENT_PORT))
        .doing(|| format!("listen on port {AGENT_PORT}"))?;
    let token: Arc<str> = boot.token.as_str().into();
    port::serve(&token)?;
    writeln!(std::io::stdout(), "{READY}").doing(|| "write to the console".into())?;
    loop {
        match listener.accept() {
            Ok((client, _)) => session::attend(Connection::new(client), &token),
            Err(error) => {
                // A client that has gone away again, or no descriptor left for the moment.
                let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot accept a client: {error}");
                std::thread::yield_now();
            }
        }
    }
}
