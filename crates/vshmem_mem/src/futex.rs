//! Sleeping on a 32-bit word of a mapping that the kernel can key: a file on tmpfs.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutexOutcome {
    /// Woken, or the word had changed already.
    Woken,
    /// The time is over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The kernel cannot sleep on this mapping (EFAULT on BARs, grants and mmapper).
    Unsupported,
}

/// Sleeps while `word` holds `expected`, for at most `timeout`.
///
/// Always bounded: a futex wait with a timeout returns EINTR after a signal handler even when the
/// handler was installed with SA_RESTART (signal(7)), and that is what System V calls promise.
#[must_use]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) -> FutexOutcome {
    let span = libc::timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: `word` is a live, aligned 32-bit word and `span` a live timespec for the whole call;
    // FUTEX_WAIT only reads them.
    let failed =
        unsafe { raw_futex(word.as_ptr(), libc::FUTEX_WAIT, expected, (&raw const span).cast()) };
    match failed {
        0 => FutexOutcome::Woken,
        libc::EAGAIN => FutexOutcome::Woken,
        libc::ETIMEDOUT => FutexOutcome::TimedOut,
        libc::EINTR => FutexOutcome::Interrupted,
        _ => FutexOutcome::Unsupported,
    }
}

/// Wakes everybody who sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned 32-bit word; FUTEX_WAKE does not touch its value.
    unsafe { raw_futex(word.as_ptr(), libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null()) };
}

/// Returns 0 or an errno, and leaves the caller's errno as it was.
///
/// # Safety
/// `word` must be valid for the operation, `timeout` null or valid.
unsafe fn raw_futex(
    word: *mut u32,
    operation: libc::c_int,
    value: u32,
    timeout: *const libc::c_void,
) -> i32 {
    // SAFETY: libc's errno location is valid for the calling thread; the futex arguments are
    // valid by this function's own contract.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let result = libc::syscall(libc::SYS_futex, word, operation, value, timeout, 0usize, 0u32);
        let failed = if result < 0 { *errno } else { 0 };
        *errno = saved;
        failed
    }
}
