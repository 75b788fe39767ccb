//! Programs that confine themselves: seccomp(2), by its own number or by prctl(2).
//!
//! A filter may end the process for a system call that it does not allow. So the library prepares:
//! before the filter is set it joins and asks the kernel what it will need, and afterwards makes
//! only the calls that docs/reference/sysv-differences.md lists. Steps that need others go through
//! [`vshmem_mem::unless_confined`] and are left to other processes: starting an agent, noticing a
//! child's end at once, opening the pool's file again.

use libc::c_int;

use crate::session::join;

/// Makes a call that confines the program.
pub fn confine(call: impl FnOnce() -> c_int) -> c_int {
    join::join_in_time();
    // seccomp(2) with SECCOMP_FILTER_FLAG_NEW_LISTENER gives a descriptor; with TSYNC, a thread
    // that could not follow.
    vshmem_mem::confine(call)
}

/// Whether an operation of seccomp(2) confines: SECCOMP_SET_MODE_STRICT and
/// SECCOMP_SET_MODE_FILTER.
pub fn confines(operation: usize) -> bool {
    operation <= 1
}
