//! Descriptors of the program's that joining needs: a few, for a moment. The kernel's System V
//! calls need none, so a program may have none left at its first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit as set_limit};

/// Tries again what has failed for want of a descriptor, with the soft limit at the hard one
/// meanwhile. `None`: there are descriptors left, or no more are to be had.
#[cold]
pub fn beyond_the_soft_limit<T>(again: impl FnOnce() -> T) -> Option<T> {
    let look = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let probe = rustix::fs::open(c"/", look, rustix::fs::Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    if probe.err() != Some(rustix::io::Errno::MFILE) || limit.current == limit.maximum {
        return None;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    set_limit(Resource::Nofile, raised).ok()?;
    let result = again();
    // Less is always allowed. A limit that was set meanwhile stays: by another process, with
    // prlimit(2), or past libc, whose calls wait until this process has joined.
    if getrlimit(Resource::Nofile) == raised {
        let _ = set_limit(Resource::Nofile, limit);
    }
    Some(result)
}
