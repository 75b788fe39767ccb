//! The host's end of a guest's serial port: the way to its agent.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Doing, Result};
use crate::model::names::domain;
use crate::transport::mux::Mux;

/// How long a machine may take to listen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long an agent may take to accept a connection that is opened over its guest's port. Such a
/// guest may be emulated and busy: with a dozen commands started at once, 5 s were too few on a
/// loaded host.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// Connects to it as soon as the machine listens. What is sent before the agent listens waits in
/// the port.
pub(super) fn connect(socket: &Path, machine: &mut Child, guest: u32) -> Result<Arc<Mux>> {
    let connecting = || format!("connect to {}'s serial port {socket:?}", domain(guest));
    let end = Instant::now() + TIMEOUT;
    let line = loop {
        let error = match UnixStream::connect(socket) {
            Ok(line) => break line,
            Err(error) => error,
        };
        let ended = machine.try_wait().doing(connecting)?;
        if ended.is_some() || Instant::now() > end {
            let _ = machine.kill();
            let _ = machine.wait();
            return Err(error).doing(connecting);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let reader = line.try_clone().doing(connecting)?;
    let mux = Mux::new(line);
    let own = Arc::clone(&mux);
    // It ends with the guest.
    std::thread::spawn(move || own.listen(reader, None));
    Ok(mux)
}
