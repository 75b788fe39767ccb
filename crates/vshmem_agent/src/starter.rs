//! Starting an agent, from inside a program or from the `vshmem` command.
//!
//! A program keeps the command's file open from the time when it joined the pool, and starts an
//! agent from it only while it has the root, namespaces and user with which it was loaded
//! (`surroundings`). A program that has changed any of these, or closed the file, starts none: the
//! next process that joins does, or one that makes a slow call.

#![allow(unsafe_code)] // a descriptor by its number

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use vshmem_mem::{Instant, StallProofTimeout};
use vshmem_session::{Role, Session};

use crate::error::AgentError;
use crate::launch::Launch;
use crate::surroundings::{Identity, are_as_at_load};

/// Lowest number of the kept descriptor: above what programs use.
const HIGH: i32 = 900;
/// How long starting may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// What passes between two looks counts for so much at most: the agent may have been stopped
/// together with this process.
const MOST_OF_A_LOOK: Duration = Duration::from_millis(100);

/// A way to start the agent of this process's domain.
#[derive(Debug)]
pub struct AgentStarter {
    launch: Launch,
    identity: Identity,
}

impl AgentStarter {
    /// Keeps `command`, which must be an absolute path to `vshmem`, open for the agent of the pool
    /// at `path`.
    #[must_use]
    pub fn open(command: &Path, path: &Path) -> Option<Self> {
        if !command.is_absolute() || !are_as_at_load() {
            return None;
        }
        let file = rustix::fs::open(command, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let file = rustix::io::fcntl_dupfd_cloexec(&file, HIGH).unwrap_or(file);
        let identity = identity_of(file.as_fd())?;
        let words = words(command, path)?;
        Some(Self { launch: Launch { command: file.into_raw_fd(), words }, identity })
    }

    /// Starts an agent if there is none, and returns at once; with `wait`, when it is up. Uses no
    /// heap. Whether it may is asked before the pool is told so, and again by the child.
    pub fn ensure(&self, session: &Session, wait: bool) {
        // First: a client that announces that it starts one keeps others from it.
        if !self.may_start() {
            session.client().renounce_agent();
            return;
        }
        if !session.client().must_start_agent(vshmem_link::process_exists).unwrap_or(false) {
            return;
        }
        // The next client to come here tries again.
        if !wait {
            let _ = self.launch.start_apart(&|| self.may_start());
        } else if let Ok(child) = self.launch.start(&|| self.may_start()) {
            child.wait();
        }
    }

    /// Whether the descriptor is the one that was opened, and the surroundings are as at load.
    fn may_start(&self) -> bool {
        self.descriptor_is_ours() && are_as_at_load()
    }

    fn descriptor_is_ours(&self) -> bool {
        // SAFETY: the number is only asked what it means; a closed one gives EBADF.
        let file = unsafe { BorrowedFd::borrow_raw(self.launch.command) };
        identity_of(file) == Some(self.identity)
    }
}

impl Drop for AgentStarter {
    fn drop(&mut self) {
        if self.descriptor_is_ours() {
            // SAFETY: closes what was opened here, as its identity says.
            unsafe { libc::close(self.launch.command) };
        }
    }
}

fn identity_of(file: BorrowedFd<'_>) -> Option<Identity> {
    rustix::fs::fstat(file).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

fn words(command: &Path, path: &Path) -> Option<[CString; 4]> {
    let word = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
    Some([word(command)?, c"agent".to_owned(), c"--pool".to_owned(), word(path)?])
}

/// For the `vshmem` command itself: sees to it that this domain has an agent for the pool at
/// `path`, and returns when it is up.
pub fn start(path: &Path) -> Result<(), AgentError> {
    if Role::Agent.is_held(path) {
        return Ok(());
    }
    // The file that runs, whatever its path leads to by now.
    let command =
        rustix::fs::open(c"/proc/self/exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| AgentError::Start(errno.into()))?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let words = words(Path::new("vshmem"), &path)
        .ok_or_else(|| AgentError::Start(std::io::ErrorKind::InvalidInput.into()))?;
    let launch = Launch { command: command.as_raw_fd(), words };
    let child = launch.start(&|| true).map_err(|errno| AgentError::Start(errno.into()))?;
    let mut timeout = StallProofTimeout::new(Instant::now(), TIMEOUT, MOST_OF_A_LOOK);
    loop {
        match child.try_wait().map_err(AgentError::Start)?.map(ExitStatus::from_raw) {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(AgentError::Ended(status)),
            None if timeout.is_over(Instant::now()) => {
                // The program that this process becomes must not inherit it as a child.
                child.kill();
                return Err(AgentError::Late { seconds: TIMEOUT.as_secs() });
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
