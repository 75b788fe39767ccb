//! What can come of a step on a pool.
//!
//! Four things are distinguished. **Normal** outcomes that the man pages list (a semaphore that
//! would block, a key that exists, no room) are [`Failure::Errno`]. **Hostile**: a member wrote an
//! impossible value; [`Fault::Corrupt`] says where. **Evicted**: this process may not change the
//! pool any more. **Ours**: a caller inside this library has asked for what it must not ask for.
//! Only the public type (`api/`) turns them into an errno.

use rustix::io::Errno;
use vshmem_sync::{Decision, Fault};
use vshmem_wire::NoRow;

/// What the body of a change that may be refused comes to: an errno is decided upon, because
/// something is to become of what is staged.
pub(crate) type ChangeResult<T> = Result<Decision<T, Errno>, Fault>;

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

impl From<NoRow> for Failure {
    fn from(error: NoRow) -> Self {
        Self::Fault(error.into())
    }
}

/// The result of a step that a call can do without: `None` when it was refused with an errno.
pub(crate) fn unless_refused<T>(result: Result<T, Failure>) -> Result<Option<T>, Fault> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Errno(_)) => Ok(None),
        Err(Failure::Fault(fault)) => Err(fault),
    }
}

/// A failure in a step that has no caller to tell it to.
pub(crate) fn broken(at: impl Into<u64>) -> impl Fn(Failure) -> Fault {
    let at = at.into();
    move |failure| match failure {
        // One who is evicted in the middle of it may change nothing, also not to repair it.
        Failure::Fault(fault @ (Fault::Corrupt { .. } | Fault::Evicted)) => fault,
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
