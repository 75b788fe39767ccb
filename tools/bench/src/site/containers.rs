//! Two containers that need no privileges.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::place::{Job, Materials, Side, Site};
use super::spawn;
use crate::error::{Error, Result};
use crate::pool::OwnPool;

/// Two user, PID, mount and IPC namespaces, and so two domains, on one local pool of their own. The
/// network is the machine's.
#[derive(Debug)]
pub struct Containers {
    command: PathBuf,
    // Before the pool, so that the domains end first.
    holders: [Holder; 2],
    pool: OwnPool,
    cpus: [usize; 2],
}

impl Containers {
    /// Two new containers, with a new pool.
    ///
    /// # Errors
    /// [`Error::NoSite`] when this machine does not let users make namespaces.
    pub fn open(materials: &Materials<'_>) -> Result<Self> {
        Ok(Self {
            command: materials.command.to_owned(),
            holders: [Holder::start()?, Holder::start()?],
            pool: OwnPool::make(materials.pool_bytes, &[])?,
            cpus: spawn::two_cpus(),
        })
    }
}

impl Site for Containers {
    fn noun(&self) -> &'static str {
        "containers"
    }

    fn describe(&self) -> String {
        let [one, other] = self.cpus;
        format!(
            "two containers (PID namespaces of one kernel) on a local pool, on CPUs {one} and {other}; TCP and UDP \
             over loopback"
        )
    }

    fn cpus(&self) -> [usize; 2] {
        self.cpus
    }

    fn run(&self, side: Side, job: &Job) -> Result<String> {
        let prefix = self.holders[side as usize].prefix();
        let place = format!("in container {}", side as usize + 1);
        spawn::run(&prefix, job, &self.command, self.pool.name(), &place)
    }
}

/// The first process of a container. It reads from this process, so it ends with it, however that
/// ends; and with it everything in its PID namespace.
#[derive(Debug)]
struct Holder {
    child: Child,
}

impl Holder {
    fn start() -> Result<Self> {
        let refused = |why: String| Error::NoSite { place: "containers", why };
        let mut child = Command::new("unshare")
            .args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "--ipc", "sh", "-c", "echo up; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| refused(format!("unshare: {error}")))?;
        let mut word = String::new();
        if let Some(stdout) = &mut child.stdout {
            let _ = BufReader::new(stdout).read_line(&mut word);
        }
        if word.trim() == "up" {
            return Ok(Self { child });
        }
        drop(child.stdin.take());
        let said = child.wait_with_output().map(|output| output.stderr).unwrap_or_default();
        Err(refused(String::from_utf8_lossy(&said).trim().to_owned()))
    }

    /// The words in front of a command that runs in there.
    fn prefix(&self) -> Vec<OsString> {
        let pid = self.child.id();
        // `unshare` itself stays outside the PID namespace that it made for its child.
        [
            "nsenter".to_owned(),
            format!("--target={pid}"),
            "--user".into(),
            "--preserve-credentials".into(),
            "--mount".into(),
            "--ipc".into(),
            format!("--pid=/proc/{pid}/ns/pid_for_children"),
            "--".into(),
        ]
        .map(OsString::from)
        .to_vec()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
