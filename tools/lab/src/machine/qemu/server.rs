//! The server from which ivshmem-doorbell devices get the pool and their interrupts: the one that
//! listens, or one that the lab starts and ends.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Doing, Error, Result};
use crate::held::held;
use crate::host::directory::Directory;
use crate::host::log::tail;
use crate::host::{guest_processes, tool};
use crate::model::Server;

/// How long it may take to listen, and to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The one that this keeper has started.
static STARTED: Mutex<Option<Child>> = Mutex::new(None);

/// A connection for a guest, made by the keeper: the guest's user need not be let in.
pub(super) fn connect(server: &Server, directory: &Directory) -> Result<UnixStream> {
    let mut started = held(STARTED.lock());
    let end = Instant::now() + TIMEOUT;
    loop {
        let error = match UnixStream::connect(&server.socket) {
            Ok(line) => return Ok(line),
            Err(error) => error,
        };
        let refused = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
        if !refused || Instant::now() > end {
            return Err(error)
                .doing(|| format!("connect to the ivshmem server at {:?}", server.socket));
        }
        let ended = match started.as_mut() {
            Some(child) => child.try_wait().doing(|| "look after the ivshmem server".into())?,
            None => {
                *started = Some(start(server, directory)?);
                None
            }
        };
        if let Some(status) = ended {
            // Killed since the last guest connected: once more. Ended by itself: it says why.
            *started = None;
            if status.signal().is_none() {
                return Err(Error::Tool {
                    command: server.command.join(" "),
                    status: status.to_string(),
                    output: tail(&directory.server_log()),
                });
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start(server: &Server, directory: &Directory) -> Result<Child> {
    let log = directory.server_log();
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .doing(|| format!("open {log:?}"))?;
    Command::new(tool::find("setpriv").unwrap_or_else(|| "setpriv".into()))
        .args(["--pdeathsig", "TERM"])
        .args(&server.command)
        .env(guest_processes::MARK, directory.path().join("server"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().doing(|| "write the server's log".into())?)
        .stderr(log)
        .spawn()
        .doing(|| format!("start the ivshmem server, `{}`", server.command.join(" ")))
}

/// Ends the server, if this keeper has started it.
pub(crate) fn stop() {
    let mut started = held(STARTED.lock());
    let Some(mut child) = started.take() else {
        return;
    };
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let end = Instant::now() + TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}
