//! On which NUMA nodes the kernel takes memory for what this thread writes first.

use std::io;

const MPOL_DEFAULT: libc::c_long = 0;
const MPOL_BIND: libc::c_long = 2;
const MPOL_INTERLEAVE: libc::c_long = 3;

/// Where new pages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// As the kernel likes.
    Default,
    /// From this node alone.
    Bind(u32),
    /// From the nodes of this mask in turn.
    Interleave(u64),
}

/// Sets the calling thread's policy; threads that it starts inherit it.
///
/// # Errors
/// What set_mempolicy(2) says: EINVAL for a node that is not online, ENOSYS for a kernel without
/// NUMA.
pub fn set_memory_policy(policy: MemoryPolicy) -> io::Result<()> {
    let (mode, mask) = match policy {
        MemoryPolicy::Default => (MPOL_DEFAULT, 0),
        MemoryPolicy::Bind(node) => (MPOL_BIND, 1u64.checked_shl(node).unwrap_or(0)),
        MemoryPolicy::Interleave(nodes) => (MPOL_INTERLEAVE, nodes),
    };
    // The kernel reads one bit fewer than it is told.
    let bits: libc::c_ulong = 65;
    let mask: [u64; 2] = [mask, 0];
    // SAFETY: the kernel reads `bits` bits at `mask`, which has 128 and lives through the call.
    let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), bits) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_not_there_are_refused() {
        match set_memory_policy(MemoryPolicy::Default) {
            Ok(()) => assert!(set_memory_policy(MemoryPolicy::Bind(63)).is_err()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
    }
}
