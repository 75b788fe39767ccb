//! A command to run in a guest, and its streams.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use crate::error::{Doing, Result};
use crate::transport::frame::Request;

/// A command to run in a guest, as root unless [`user`](Self::user) says otherwise.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// The program, looked up in the guest's PATH, and its arguments.
    pub argv: Vec<OsString>,
    /// Variables beside the guest's own few (PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, LANG; in
    /// User Mode Linux GLIBC_TUNABLES).
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; `/root`, which is empty and writable, if `None`.
    pub cwd: Option<PathBuf>,
    /// User and group in the guest.
    pub user: Option<(u32, u32)>,
    /// Pass SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 of this process on to the
    /// command. This process no longer dies of them, not even afterwards: for programs that end
    /// with the command.
    pub forward_signals: bool,
}

impl ExecRequest {
    /// A request for that program and its arguments.
    pub fn new<W: Into<OsString>>(argv: impl IntoIterator<Item = W>) -> Self {
        ExecRequest { argv: argv.into_iter().map(Into::into).collect(), ..Default::default() }
    }

    /// A request for a shell command line.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new([OsString::from("/bin/sh"), "-c".into(), line.into()])
    }

    pub(crate) fn with_token(&self, token: String) -> Request {
        Request {
            token,
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            user: self.user,
        }
    }
}

/// Where a command's standard input comes from and its output goes to.
pub struct Streams {
    /// Read to its end, or as far as the command reads; nothing if `None`.
    pub stdin: Option<OwnedFd>,
    /// Receives standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Receives standard error.
    pub stderr: Box<dyn Write + Send>,
}

impl Streams {
    /// This process's own.
    pub fn inherit() -> Result<Self> {
        // Not through std's buffers: what a guest writes must be out when it is written.
        let own = |fd: std::io::Result<OwnedFd>| {
            fd.map(std::fs::File::from).doing(|| "duplicate standard streams".into())
        };
        Ok(Streams {
            stdin: std::io::stdin().as_fd().try_clone_to_owned().ok(),
            stdout: Box::new(own(std::io::stdout().as_fd().try_clone_to_owned())?),
            stderr: Box::new(own(std::io::stderr().as_fd().try_clone_to_owned())?),
        })
    }
}
