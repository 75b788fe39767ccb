//! The process in between: it starts the agent proper in a session of its own and ends when that is
//! up, so the agent belongs to init and not to the program that wanted it.

use std::fs::Metadata;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vshmem_session::Role;

use crate::error::AgentError;
use crate::stay::{AgentOptions, Stay};

/// What the agent says when it is at work.
pub const UP: &str = "up";

/// Starts the agent proper with nothing of what this process holds, and returns when it is up.
pub fn detach(wanted: &AgentOptions) -> Result<(), AgentError> {
    let role = match wanted.stay {
        Stay::WhileInUse => Role::Agent,
        Stay::WhileThePoolExists => Role::PermanentAgent,
    };
    if wanted.owner.is_some() {
        // Another user could have the role for a file of his own.
        wanted.find()?;
    }
    if role.is_held(&wanted.path) {
        return Ok(());
    }
    // Refused to a process that leads a session already, which is as well.
    let _ = rustix::process::setsid();
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let mut child = own_command(&wanted.path)
        .arg("--stay")
        .args((wanted.stay == Stay::WhileThePoolExists).then_some("--keep"))
        .args(wanted.owner.map(|owner| format!("--owner={owner}")))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(AgentError::Start)?;
    let mut word = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut word).map_err(AgentError::Start)?;
    }
    // Another process's agent may have been faster.
    if word.trim() == UP || role.is_held(&wanted.path) {
        return Ok(());
    }
    Err(AgentError::Silent)
}

/// Where this very binary is. Programs keep it open for as long as they run, and it may be removed
/// or replaced meanwhile: then its path leads nowhere, or to another release.
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
fn own_command(path: &Path) -> Command {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut command = Command::new(own_binary());
    command.arg0("vshmem");
    command.arg("agent").arg("--pool").arg(path).env_clear();
    command
}
