//! What can come of a step on a pool.
//!
//! Four things are distinguished. **Normal** outcomes that the man pages list (a semaphore that
//! would block, a key that exists, no room) are [`Failure::Errno`]. **Hostile**: a member wrote an
//! impossible value; [`Fault::Corrupt`] says where. **Evicted**: this process may not change the
//! pool any more. **Ours**: a caller inside this library has asked for what it must not ask for.
//! Only the public type (`api/`) turns them into an errno.

use rustix::io::Errno;
use vshmem_sync::Fault;

/// Result of a change that may be refused: the outer layer is the machinery's, the inner one the
/// caller's.
pub(crate) type ChangeResult<T> = Result<Result<T, Errno>, Fault>;

/// Why a call does not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Normal: the man page lists it.
    Errno(Errno),
    /// Hostile, evicted, or ours.
    Fault(Fault),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A verdict as a result of one layer.
pub(crate) fn flatten<T>(verdict: ChangeResult<T>) -> Result<T, Failure> {
    match verdict {
        Ok(result) => Ok(result?),
        Err(fault) => Err(fault.into()),
    }
}

/// A failure in a step that has no caller to tell it to.
pub(crate) fn broken(at: u64) -> impl Fn(Failure) -> Fault {
    move |failure| match failure {
        Failure::Fault(fault @ Fault::Corrupt { .. }) => fault,
        _ => Fault::corrupt(at, "a step that cannot be finished"),
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(errno) => errno.fmt(f),
            Self::Fault(Fault::Corrupt { offset, what }) => {
                write!(f, "{what} at offset {offset:#x}")
            }
            Self::Fault(fault) => write!(f, "{fault:?}"),
        }
    }
}
