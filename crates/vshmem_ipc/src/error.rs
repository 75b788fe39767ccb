//! Results of steps on a pool, and the errno that a System V call reports for them.

use rustix::io::Errno;
use vshmem_sync::Fault;

/// Result of a change that may be refused: the outer layer is the machinery's, the inner one the
/// caller's.
pub(crate) type Verdict<T> = Result<Result<T, Errno>, Fault>;

/// Turns machinery failures into the errno that a System V call reports for them.
pub(crate) fn settle<T>(verdict: Verdict<T>) -> Result<T, Errno> {
    match verdict {
        Ok(result) => result,
        Err(Fault::TooLong) => Err(Errno::NOMEM),
        Err(Fault::Refused(errno)) => Err(Errno::from_raw_os_error(errno)),
        // `Lost` never leaves the lock module.
        Err(Fault::Corrupt { .. } | Fault::Lost | Fault::Evicted) => Err(Errno::IO),
    }
}

/// An errno out of a step that has no caller to tell it to.
pub(crate) fn broken(at: u64) -> impl Fn(Errno) -> Fault {
    move |_| Fault::corrupt(at, "a step that cannot be finished")
}
