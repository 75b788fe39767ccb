//! Sleeping on a 32-bit word of a mapping that the kernel can key: a file on tmpfs.
//!
//! The calls are made in place (rustix), not through libc: its `syscall` is one that the preload
//! library looks at, and the caller's errno stays as it was.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

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
    /// Not for this process, with this errno: a filter of seccomp(2).
    Refused(i32),
}

/// Sleeps while `word` holds `expected`, for at most `timeout`.
///
/// Always bounded: a futex wait with a timeout returns EINTR after a signal handler even when the
/// handler was installed with SA_RESTART (signal(7)), and that is what System V calls promise.
#[must_use]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) -> FutexOutcome {
    let span = Timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match futex::wait(word, futex::Flags::empty(), expected, Some(&span)) {
        Err(refused @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS)) => {
            FutexOutcome::Refused(refused.raw_os_error())
        }
        slept => outcome_of(slept),
    }
}

/// Sleeps while each of two words holds what goes with it, for at most `timeout`, which signal
/// handlers do not prolong. `Unsupported` on kernels before 5.16 as well.
#[must_use]
pub fn futex_wait_two(
    one: (&AtomicU32, u32),
    other: (&AtomicU32, u32),
    timeout: Duration,
) -> FutexOutcome {
    let waits = [one, other].map(|(word, expected)| {
        let mut wait = futex::Wait::new();
        wait.val = expected.into();
        wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
        wait.flags = futex::WaitFlags::SIZE_U32;
        wait
    });
    let now = clock_gettime(ClockId::Monotonic);
    let Some(end) = Timespec::try_from(timeout).ok().and_then(|span| now.checked_add(span)) else {
        return FutexOutcome::Unsupported;
    };
    let woken = futex::waitv(&waits, futex::WaitvFlags::empty(), Some(&end), ClockId::Monotonic);
    outcome_of(woken.map(|_| ()))
}

fn outcome_of(slept: Result<(), Errno>) -> FutexOutcome {
    match slept {
        Ok(()) | Err(Errno::AGAIN) => FutexOutcome::Woken,
        Err(Errno::TIMEDOUT) => FutexOutcome::TimedOut,
        Err(Errno::INTR) => FutexOutcome::Interrupted,
        Err(_) => FutexOutcome::Unsupported,
    }
}

/// Wakes every thread that sleeps on `word`. Says whether there was one.
pub fn futex_wake(word: &AtomicU32) -> bool {
    // Where the kernel cannot key the mapping no thread sleeps on it either.
    futex::wake(word, futex::Flags::empty(), i32::MAX as u32).is_ok_and(|woken| woken > 0)
}

/// Whether this kernel can sleep on `word` at all, which it cannot on bare memory of a device
/// (EFAULT). No thread sleeps there.
pub fn can_sleep_on(word: &AtomicU32) -> bool {
    futex::wake(word, futex::Flags::empty(), 1) != Err(Errno::FAULT)
}
