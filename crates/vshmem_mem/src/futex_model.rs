//! Sleeping, for a model checker: a waiter that no thread wakes sleeps for ever, and the checker
//! says so.

use std::time::Duration;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutexOutcome {
    /// Woken, or the word had changed already.
    Woken,
    /// The time is over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The kernel cannot sleep on this mapping.
    Unsupported,
    /// Not for this process, with this errno.
    Refused(i32),
}

loom::lazy_static! {
    /// The kernel's own lock: a waiter looks at the word and goes to sleep in one step.
    static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps while `word` holds `expected`, without a timeout.
#[must_use]
pub fn futex_wait(word: &AtomicU32, expected: u32, _: Duration) -> FutexOutcome {
    if let Ok(guard) = KERNEL.0.lock()
        && word.load(Ordering::SeqCst) == expected
    {
        // A spurious end is as good as a wake.
        let _ = KERNEL.1.wait(guard);
    }
    FutexOutcome::Woken
}

/// Sleeps while both words hold what goes with them.
#[must_use]
pub fn futex_wait_two(
    one: (&AtomicU32, u32),
    other: (&AtomicU32, u32),
    _: Duration,
) -> FutexOutcome {
    if let Ok(guard) = KERNEL.0.lock()
        && one.0.load(Ordering::SeqCst) == one.1
        && other.0.load(Ordering::SeqCst) == other.1
    {
        let _ = KERNEL.1.wait(guard);
    }
    FutexOutcome::Woken
}

/// Wakes every thread. The model does not know whether a thread slept there.
pub fn futex_wake(_: &AtomicU32) -> bool {
    let _guard = KERNEL.0.lock();
    KERNEL.1.notify_all();
    true
}

/// The model's kernel can.
pub fn can_sleep_on(_: &AtomicU32) -> bool {
    true
}
