//! The calling thread's mask of signals, by a system call instruction: the library's own, in
//! handlers too.

use crate::system_call;

/// Sets the mask and returns the one before it; `None` where a filter refuses that.
pub fn set(mask: u64) -> Option<u64> {
    let mut before = 0_u64;
    let how = libc::SIG_SETMASK as usize;
    let words = [how, (&raw const mask).addr(), (&raw mut before).addr(), size_of::<u64>()];
    // SAFETY: the kernel reads and writes masks of the size that is passed.
    let result = unsafe { system_call(libc::SYS_rt_sigprocmask, words) };
    (result == 0).then_some(before)
}

/// Blocks all signals, and returns the mask before.
pub fn block_all() -> Option<u64> {
    set(u64::MAX)
}

/// Does something that no handler interrupts, if a filter lets signals be blocked.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let before = block_all();
    let result = work();
    before.map(set);
    result
}
