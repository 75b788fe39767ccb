//! Why there is no agent.

use std::path::PathBuf;

use vshmem_session::{FindError, SessionError};

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The pool is not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The pool cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another user's file lies where the pool was.
    #[error(
        "{path}: it belongs to user {found}, and the container's file was written for a pool of user {wanted}. If this is the pool that is meant, write that file again: `vshmem pool show {path} --as cdi`",
        path = path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// The user that it belongs to.
        found: u32,
        /// The user that it has to belong to.
        wanted: u32,
    },
    /// A device has no owner to go by.
    #[error("{}: it is a device of this guest, so `--owner` means nothing for it; leave it out", path.display())]
    NoOwner {
        /// The device.
        path: PathBuf,
    },
    /// The lock of the domain's agent cannot be had.
    #[error("{}: cannot lock it as this domain's agent: {error}", path.display())]
    Lock {
        /// The pool's file or device.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The domain table is corrupt.
    #[error("the pool's domain table is corrupt")]
    Corrupt,
    /// It could not be started.
    #[error("cannot start the agent: {0}")]
    Start(std::io::Error),
    /// It ended before it was at work.
    #[error("the agent did not start: {0}. `vshmem agent --pool POOL` says why")]
    Ended(std::process::ExitStatus),
    /// It ended and reported nothing.
    #[error("the agent ended before it had started. `vshmem agent --pool POOL` says why")]
    Silent,
    /// It was given up.
    #[error("the agent had not started after {seconds} s. Look at it with `vshmem ls --pool POOL`")]
    Late {
        /// How long it was waited for.
        seconds: u64,
    },
}
