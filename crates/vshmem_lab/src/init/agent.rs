//! The agent of a guest: accepts clients and gives each a session of its own.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use super::{READY, session};
use crate::error::{Doing, Result};
use crate::record::{AGENT_PORT, Boot};

/// Serves clients until the guest ends.
pub(super) fn serve(boot: &Boot) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, AGENT_PORT))
        .doing(|| format!("listen on port {AGENT_PORT}"))?;
    let token: Arc<str> = boot.token.as_str().into();
    writeln!(std::io::stdout(), "{READY}").doing(|| "write to the console".into())?;
    loop {
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) => {
                // A client that has gone away again, or no descriptor left for the moment.
                let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot accept a client: {error}");
                std::thread::yield_now();
                continue;
            }
        };
        let token = Arc::clone(&token);
        let started = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // A broken connection is the client's affair; its program has been ended.
            let _ = session::run(client, &token);
        });
        if let Err(error) = started {
            let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot serve a client: {error}");
        }
    }
}
