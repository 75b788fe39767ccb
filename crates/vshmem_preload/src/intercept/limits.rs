//! setrlimit(2) and prlimit(2): a program that lowers its limit of descriptors or of addresses
//! joins before, and one that sets its limit of addresses has all of them.

use libc::{__rlimit_resource_t, RLIMIT_AS, RLIMIT_NOFILE, c_int, pid_t, rlimit, rlimit64};
use vshmem_session::Posix;

use vshmem_process::attached::mapping_cache;
use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::object_descriptors::open;
use vshmem_process::one_host::pids;
use vshmem_process::session::{join, route};

/// To be called before a limit of this process is set: joins while there are descriptors and
/// addresses to join with, and keeps no mapping of what is detached where addresses are bounded.
pub fn before_limit_is_set(of: pid_t, resource: u32, is_new: bool) {
    let own = || rustix::process::getpid().as_raw_nonzero().get();
    if !is_new || (of != 0 && of != own()) {
        return;
    }
    match resource {
        RLIMIT_NOFILE => join::join_in_time(),
        RLIMIT_AS => {
            join::join_in_time();
            errno::untouched(|| {
                mapping_cache::close();
                if route::posix_in_pool(Posix::SharedMemory) || route::posix_in_pool(Posix::Queue) {
                    open::make_room();
                }
            });
        }
        _ => {}
    }
}

/// setrlimit(2), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: __rlimit_resource_t, new: *const rlimit) -> c_int {
    before_limit_is_set(0, resource, true);
    next!(c"setrlimit": fn(__rlimit_resource_t, *const rlimit) -> c_int, (resource, new), -1)
}

/// setrlimit64(3), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: __rlimit_resource_t, new: *const rlimit64) -> c_int {
    before_limit_is_set(0, resource, true);
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
    let of = match pids::local(of) {
        Ok(of) => of,
        Err(error) => return errno::answer_unit(Err(error)),
    };
    before_limit_is_set(of, resource, !new.is_null());
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
    let of = match pids::local(of) {
        Ok(of) => of,
        Err(error) => return errno::answer_unit(Err(error)),
    };
    before_limit_is_set(of, resource, !new.is_null());
    next!(c"prlimit64": fn(pid_t, __rlimit_resource_t, *const rlimit64, *mut rlimit64) -> c_int,
        (of, resource, new, old), -1)
}
