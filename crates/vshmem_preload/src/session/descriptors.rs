//! Descriptors of the program's that joining needs: a few, for a moment. The kernel's System V calls need none, so a
//! program may have none left at its first.

use libc::{__rlimit_resource_t, RLIMIT_NOFILE, c_int, pid_t, rlimit, rlimit64};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit as set_limit};

use crate::next::next;
use crate::session::join;

/// Tries again what has failed for want of a descriptor, with the soft limit at the hard one meanwhile. `None`: there
/// are descriptors left, or no more are to be had.
#[cold]
pub fn beyond_the_soft_limit<T>(again: impl FnOnce() -> T) -> Option<T> {
    let look = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let probe = rustix::fs::open(c"/", look, rustix::fs::Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    if probe.err() != Some(rustix::io::Errno::MFILE) || limit.current == limit.maximum {
        return None;
    }
    set_limit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok()?;
    let result = again();
    // Less is always allowed.
    let _ = set_limit(Resource::Nofile, limit);
    Some(result)
}

/// To be called before a limit of this process is set: joins while there are descriptors to join with.
pub fn limit_is_set(of: pid_t, resource: u32, is_new: bool) {
    let own = || rustix::process::getpid().as_raw_nonzero().get();
    if is_new && resource == RLIMIT_NOFILE && (of == 0 || of == own()) {
        join::join_in_time();
    }
}

/// setrlimit(2), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: __rlimit_resource_t, new: *const rlimit) -> c_int {
    limit_is_set(0, resource, true);
    next!(c"setrlimit": fn(__rlimit_resource_t, *const rlimit) -> c_int, (resource, new), -1)
}

/// setrlimit64(3), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: __rlimit_resource_t, new: *const rlimit64) -> c_int {
    limit_is_set(0, resource, true);
    next!(c"setrlimit64": fn(__rlimit_resource_t, *const rlimit64) -> c_int, (resource, new), -1)
}

/// prlimit(2), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit(
    of: pid_t,
    resource: __rlimit_resource_t,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    limit_is_set(of, resource, !new.is_null());
    next!(c"prlimit": fn(pid_t, __rlimit_resource_t, *const rlimit, *mut rlimit) -> c_int,
        (of, resource, new, old), -1)
}

/// prlimit64(3), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit64(
    of: pid_t,
    resource: __rlimit_resource_t,
    new: *const rlimit64,
    old: *mut rlimit64,
) -> c_int {
    limit_is_set(of, resource, !new.is_null());
    next!(c"prlimit64": fn(pid_t, __rlimit_resource_t, *const rlimit64, *mut rlimit64) -> c_int,
        (of, resource, new, old), -1)
}
