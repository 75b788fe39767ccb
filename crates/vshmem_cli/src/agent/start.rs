//! Starting the agent so that nobody has it for a child.
//!
//! `start` runs `vshmem agent` and waits for it; that process starts the agent proper in a session
//! of its own and ends, so the agent belongs to init, not to the program that runs next.

use std::fs::Metadata;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use vshmem_mem::{Instant, Patience};
use vshmem_session::Duty;

use crate::failure::{Failure, failed};

/// What the agent says when it is on its post.
pub const UP: &str = "up";
/// How long starting it may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// What passes between two looks counts for so much at most: the agent may have been stopped together with this process.
const MOST_OF_A_LOOK: Duration = Duration::from_millis(100);

/// Sees to it that this domain has an agent for the pool at `place`.
pub fn start(place: &Path) -> Result<(), Failure> {
    if Duty::Agent.is_manned(place) {
        return Ok(());
    }
    let mut child = own_command(place)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::Failed(format!("cannot start the agent: {error}")))?;
    let mut patience = Patience::new(Instant::now(), PATIENCE, MOST_OF_A_LOOK);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return failed(format!("the agent did not come up: {status}")),
            Ok(None) if !patience.is_over(Instant::now()) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(None) | Err(_) => {
                // The program must not inherit it as a child.
                let _ = child.kill();
                let _ = child.wait();
                return failed(format!("the agent was not up after {} s", PATIENCE.as_secs()));
            }
        }
    }
}

/// In between: leaves everything behind, starts the agent proper, and ends when it is up.
pub fn detach(place: &Path) -> Result<(), Failure> {
    if Duty::Agent.is_manned(place) {
        return Ok(());
    }
    // Refused to a process that leads a session already, which is as well.
    let _ = rustix::process::setsid();
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let cannot = |error| Failure::Failed(format!("cannot start the agent: {error}"));
    let mut child = own_command(place)?
        .arg("--stay")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot)?;
    let mut word = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut word).map_err(cannot)?;
    }
    // Somebody else's agent may have been faster.
    if word.trim() == UP || Duty::Agent.is_manned(place) {
        return Ok(());
    }
    failed("the agent ended before it was up")
}

/// Where this very binary is. Programs keep it open for as long as they run, and it may be removed or replaced meanwhile: then its
/// path leads nowhere, or to another release.
fn own_binary() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    let identity =
        |path: &Path| path.metadata().ok().map(|meta: Metadata| (meta.dev(), meta.ino()));
    std::env::current_exe()
        .ok()
        .filter(|path| identity(path).is_some() && identity(path) == identity(&running))
        .unwrap_or(running)
}

/// This binary as `vshmem agent`, with nothing of the environment: no LD_PRELOAD above all.
fn own_command(place: &Path) -> Result<Command, Failure> {
    let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let mut command = Command::new(own_binary());
    command.arg0("vshmem");
    command.arg("agent").arg("--pool").arg(place).env_clear();
    Ok(command)
}
