//! What joining needs of the program's for a moment, or for good: a few descriptors, and addresses
//! for the pool's tables. The kernel's System V calls need neither, so a program may have none left
//! at its first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit as set_limit};
use vshmem_ipc::Errno;
use vshmem_session::SessionError;

/// Tries again what has failed for want of descriptors or addresses, with the soft limit at the
/// hard one meanwhile. `None`: there was no want of them, or no more are to be had.
#[cold]
pub fn beyond<T>(error: &SessionError, again: impl FnOnce() -> T) -> Option<T> {
    if no_descriptor_left() {
        with_raised(Resource::Nofile, again)
    } else if is_for_addresses(error) {
        with_raised(Resource::As, again)
    } else {
        None
    }
}

/// Whether the pool has found no addresses in the process.
pub fn is_for_addresses(error: &SessionError) -> bool {
    error.errno() == Some(Errno::NOMEM)
}

fn no_descriptor_left() -> bool {
    let look = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let probe = rustix::fs::open(c"/", look, rustix::fs::Mode::empty());
    probe.err() == Some(rustix::io::Errno::MFILE)
}

fn with_raised<T>(resource: Resource, again: impl FnOnce() -> T) -> Option<T> {
    let limit = getrlimit(resource);
    if limit.current == limit.maximum {
        return None;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    set_limit(resource, raised).ok()?;
    let result = again();
    // Less is always allowed. A limit that was set meanwhile stays: by another process, with
    // prlimit(2), or past libc, whose calls wait until this process has joined.
    if getrlimit(resource) == raised {
        let _ = set_limit(resource, limit);
    }
    Some(result)
}
