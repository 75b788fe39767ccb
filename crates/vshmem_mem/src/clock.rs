//! Time that is cheap enough for a hot path.
//!
//! Usually `time(2)` is a few nanoseconds in the vDSO, less than reading the time stamp counter in
//! a virtual machine. In a User Mode Linux guest it is a system call of 40 us; there the second
//! that stamps an object is remembered together with the counter, and only read again when the
//! counter no longer guarantees it. Which of the two it is, is measured once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::Timespec;

use crate::second::RememberedSecond;

/// The CPU's free running counter. Only differences within one domain mean anything.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC reads a register; it has no memory effect and is never disabled on the
        // systems that run user programs (a kernel that sets CR4.TSD breaks libc as well).
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let count: u64;
        // SAFETY: CNTVCT_EL0 is readable from user space on Linux; reading has no side effect.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        // The generic timer runs at 1 MHz to 1 GHz; scale it to the order of a CPU's clock so
        // that the threshold below stays an upper bound of time.
        count.wrapping_mul(16)
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        // Nanoseconds in place of ticks, so that a thread that spins for so many of them comes to
        // an end.
        Instant::now().0.as_nanos() as u64
    }
}

/// Ticks for which a remembered second may be reused. On a counter of at least 1 GHz this is at
/// most 16.8 ms.
const TRUSTED_TICKS: u64 = 1 << 24;
/// Nanoseconds into a second after which it is not remembered: 16.8 ms could cross into the next.
const TRUSTED_NANOS: i64 = 980_000_000;

#[cfg(not(loom))]
static REMEMBERED: RememberedSecond = RememberedSecond::new();
#[cfg(loom)]
loom::lazy_static! {
    static ref REMEMBERED: RememberedSecond = RememberedSecond::new();
}

/// How this machine's clock is best read; one of the constants below.
static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const ASK: u8 = 1;
const REMEMBER: u8 = 2;
/// Ticks that a call of `time` may take to count as cheap: no system call is that fast.
const CHEAP_TICKS: u64 = 300;

/// Seconds since 1970, as `time(2)` would say, without a system call most of the time.
#[inline]
#[must_use]
pub fn seconds_now() -> u32 {
    match WAY.load(Ordering::Relaxed) {
        ASK => time(),
        REMEMBER => remembered(),
        _ => measure(),
    }
}

#[inline]
fn time() -> u32 {
    if cfg!(miri) {
        return rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u32;
    }
    // SAFETY: a null pointer asks for the result alone.
    unsafe { libc::time(std::ptr::null_mut()) as u32 }
}

#[cold]
fn measure() -> u32 {
    let fastest = (0..8)
        .map(|_| {
            let before = ticks();
            std::hint::black_box(time());
            ticks().wrapping_sub(before)
        })
        .min()
        .unwrap_or(u64::MAX);
    WAY.store(if fastest <= CHEAP_TICKS { ASK } else { REMEMBER }, Ordering::Relaxed);
    time()
}

#[inline]
fn remembered() -> u32 {
    let now = ticks();
    REMEMBERED.recall(now, TRUSTED_TICKS).unwrap_or_else(|| ask(now))
}

/// Asks the clock, `now` being a tick from before: whatever comes between makes the pair older than
/// it is.
#[cold]
fn ask(now: u64) -> u32 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    // What was remembered earlier is not for long enough to come into the next second either.
    if time.tv_nsec < TRUSTED_NANOS && now != 0 {
        REMEMBERED.remember(now, time.tv_sec as u32);
    }
    time.tv_sec as u32
}

/// CPU time of this thread so far, as its kernel counts it. Always a system call.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    if cfg!(miri) {
        // It has no such clock; one that stands still is not used.
        return Duration::ZERO;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sleeps for that long, or until a signal. Past libc, whose nanosleep is a cancellation point.
pub fn sleep_shortly(span: Duration) {
    let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    let _ = rustix::thread::nanosleep(&span);
}

/// How long a sleep lasts that is over as soon as it has begun, in ticks: the CPU has hardly time
/// to rest in it, so it is about what a sleep costs.
#[must_use]
pub fn shortest_sleep() -> u64 {
    let word = std::sync::atomic::AtomicU32::new(0);
    let moment = Timespec { tv_sec: 0, tv_nsec: 1 };
    let mut spans = [(); 3].map(|()| {
        let began = ticks();
        // However it ends: one that a signal has cut short is not the middle one.
        let _ = futex::wait(&word, futex::Flags::PRIVATE, 0, Some(&moment));
        ticks().wrapping_sub(began)
    });
    spans.sort_unstable();
    spans[1]
}

/// To be called in a child that `fork` has made, by its only thread.
pub(crate) fn begin_child() {
    REMEMBERED.start_over();
}

/// A moment on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// The moment `span` from this one; a span too long to express is the end of time.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.checked_add(span).unwrap_or(Duration::MAX))
    }

    /// How long until this moment; zero when it has passed.
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}

/// A clock by which a program says until when it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CLOCK_REALTIME: the wall clock, which can be set.
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
}

/// A moment on one of these clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The clock.
    pub clock: Clock,
    /// The time on it.
    pub at: Duration,
}

impl Deadline {
    /// So long from now, on a clock that nobody sets.
    #[must_use]
    pub fn after(span: Duration) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let now = Duration::new(seconds, time.tv_nsec as u32);
        Self { clock: Clock::Monotonic, at: now.saturating_add(span) }
    }

    /// How long until this moment, as the clock stands now; zero when it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        let clock = match self.clock {
            Clock::Realtime => rustix::time::ClockId::Realtime,
            Clock::Monotonic => rustix::time::ClockId::Monotonic,
        };
        let time = rustix::time::clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        self.at.saturating_sub(Duration::new(seconds, time.tv_nsec as u32))
    }
}

/// How long to wait for another thread, by what passes from look to look. One look counts for a
/// bounded time: a process that is stopped as a whole (SIGSTOP, a frozen cgroup, a paused virtual
/// machine) keeps nearly all of its timeout, as the processes that it waits for were often stopped
/// with it.
#[derive(Debug, Clone, Copy)]
pub struct StallProofTimeout {
    left: Duration,
    most: Duration,
    looked: Instant,
}

impl StallProofTimeout {
    /// A wait of `span` that begins now. What passes before a look counts for `most` at most.
    #[must_use]
    pub fn new(now: Instant, span: Duration, most: Duration) -> Self {
        Self { left: span, most, looked: now }
    }

    /// Takes note of a look, and says whether the wait is over.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let passed = now.remaining(self.looked).min(self.most);
        self.looked = now;
        self.left = self.left.saturating_sub(passed);
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_timeout_is_over_after_its_span() {
        let mut now = Instant::now();
        let mut timeout = StallProofTimeout::new(now, 10 * SECOND, SECOND);
        let looks = (1..).find(|_| {
            now = now.after(SECOND / 2);
            timeout.is_over(now)
        });
        assert_eq!(looks, Some(20));
    }

    #[test]
    fn a_stop_uses_up_one_poll_of_the_timeout() {
        let begun = Instant::now();
        let mut timeout = StallProofTimeout::new(begun, 10 * SECOND, SECOND);
        let stopped = begun.after(3600 * SECOND);
        assert!(!timeout.is_over(stopped));
        assert!(!timeout.is_over(stopped.after(8 * SECOND / 2)), "one more long look");
        assert!(!timeout.is_over(stopped), "a clock that goes back");
    }

    #[test]
    fn the_second_is_never_behind_the_clock() {
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let before = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u32;
            let seen = remembered();
            let after = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u32;
            assert!((before..=after).contains(&seen), "{before} <= {seen} <= {after}");
            // time(2) may lag by a tick, here as in the kernel's own stamps.
            assert!((before - 1..=after).contains(&seconds_now()));
        }
    }
}
