//! The agent of a guest: accepts clients and gives each a session of its own.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use super::{READY, port, session};
use crate::error::{Doing, Result};
use crate::host::record::{AGENT_PORT, Boot};
use crate::transport::Connection;

/// Serves clients until the guest ends: those that come over the network, and those that the keeper lets in by the
/// guest's serial port, if it has one.
pub(super) fn serve(boot: &Boot) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, AGENT_PORT))
        .doing(|| format!("listen on port {AGENT_PORT}"))?;
    let token: Arc<str> = boot.token.as_str().into();
    port::serve(&token)?;
    writeln!(std::io::stdout(), "{READY}").doing(|| "write to the console".into())?;
    loop {
        match listener.accept() {
            Ok((client, _)) => attend(Connection::new(client), &token),
            Err(error) => {
                // A client that has gone away again, or no descriptor left for the moment.
                let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot accept a client: {error}");
                std::thread::yield_now();
            }
        }
    }
}

/// Gives a client its session.
pub(super) fn attend(client: Connection, token: &Arc<str>) {
    let token = Arc::clone(token);
    let started = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        // A broken connection is the client's affair; its program has been ended.
        let _ = session::run(client, &token);
    });
    if let Err(error) = started {
        let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot serve a client: {error}");
    }
}
