//! Programs that confine themselves: seccomp(2), by its own number or by prctl(2).
//!
//! A filter may end the process for a system call that it does not allow. So the library prepares:
//! before the filter is set it joins and asks the kernel what it will need, and afterwards makes
//! only the calls that docs/reference/sysv-differences.md lists. Steps that need others go through
//! [`vshmem_mem::unless_confined`] and are left to other processes: starting an agent, noticing a
//! child's end at once, opening the pool's file again.

use libc::c_int;
use vshmem_mem::Confined;

use crate::session::join;

/// seccomp(2), or PR_SET_SECCOMP of prctl(2), which confines one thread.
pub fn confine(threads: Confined, call: impl FnOnce() -> c_int) -> c_int {
    join::join_in_time();
    // seccomp(2) with SECCOMP_FILTER_FLAG_NEW_LISTENER gives a descriptor; with TSYNC, a thread
    // that could not follow.
    vshmem_mem::confine(threads, call)
}

/// The threads that an operation of seccomp(2) confines, if it does: SECCOMP_SET_MODE_STRICT and
/// SECCOMP_SET_MODE_FILTER. As the kernel, of an operation and its flags by their low halves.
pub fn confined_by(operation: usize, flags: usize) -> Option<Confined> {
    let for_all = flags as u32 & libc::SECCOMP_FILTER_FLAG_TSYNC as u32 != 0;
    match operation as u32 {
        libc::SECCOMP_SET_MODE_FILTER if for_all => Some(Confined::AllThreads),
        libc::SECCOMP_SET_MODE_STRICT | libc::SECCOMP_SET_MODE_FILTER => Some(Confined::OneThread),
        _ => None,
    }
}
