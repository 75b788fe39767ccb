//! pthread_cond_t.

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Clock, Deadline, Ordering, ticks};

use super::futex::{Futex, WaitEnd};
use super::mutex::SharedMutex;
use super::owner::LockOwner;
use crate::crash::crash_point;

/// In the sequence: a thread waits, or is about to.
const WAITERS: u64 = 1;
/// In the sequence: a thread sleeps, or is about to. Others that wait look at the sequence.
const SLEEPERS: u64 = 2;
/// What a signal adds.
const STEP: u64 = 4;
const MONOTONIC: u32 = 1;

/// A process-shared condition variable in the memory of a pool, where glibc has its pthread_cond_t.
#[derive(Debug)]
#[repr(C)]
pub struct SharedCondvar {
    sequence: AtomicU64,
    mark: AtomicU64,
    clock: AtomicU32,
    spare: AtomicU32,
    unused: [AtomicU64; 3],
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SharedCondvar>() == 48
        && core::mem::offset_of!(SharedCondvar, mark) == SharedCondvar::MARK_AT,
    "as pthread_cond_t of glibc on 64 bits"
);

impl SharedCondvar {
    /// Offset of the word by which [`SharedCondvar::is_marked`] tells.
    pub const MARK_AT: usize = 8;
    /// Stands where glibc has a counter of waiters, which never comes so far.
    pub const MARK: u64 = 0xd6ad_766d_636f_6e64;

    /// Whether the word at [`SharedCondvar::MARK_AT`] is that of a condition variable of this kind.
    #[inline(always)]
    #[must_use]
    pub const fn is_marked(word: u64) -> bool {
        word == Self::MARK
    }

    /// A new one.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let zero = || AtomicU64::new(0);
        let condvar = Self {
            sequence: zero(),
            mark: zero(),
            clock: AtomicU32::new(0),
            spare: AtomicU32::new(0),
            unused: [zero(), zero(), zero()],
        };
        condvar.init(clock);
        condvar
    }

    /// pthread_cond_init(3), whatever lies there. `clock` is that of pthread_cond_timedwait(3).
    pub fn init(&self, clock: Clock) {
        // Somewhere else each time: a thread that is late at a condition variable that was
        // destroyed does not find its own number at the next one.
        let start = ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15) & !(STEP - 1);
        self.sequence.store(start, Ordering::Relaxed);
        let clock = if clock == Clock::Monotonic { MONOTONIC } else { 0 };
        self.clock.store(clock, Ordering::Relaxed);
        self.spare.store(0, Ordering::Relaxed);
        for word in &self.unused {
            word.store(0, Ordering::Relaxed);
        }
        self.mark.store(Self::MARK, Ordering::Release);
    }

    /// pthread_cond_destroy(3). Threads that were woken and have not returned yet only read the
    /// sequence, and only to find that it is another one.
    pub fn destroy(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// The clock of pthread_cond_timedwait(3).
    #[must_use]
    pub fn clock(&self) -> Clock {
        let is_monotonic = self.clock.load(Ordering::Relaxed) & MONOTONIC != 0;
        if is_monotonic { Clock::Monotonic } else { Clock::Realtime }
    }

    /// pthread_cond_wait(3), and with a deadline timedwait and clockwait. `mutex` is locked
    /// afterwards, whatever is returned but EPERM. Ends without a reason at times, also when
    /// `futex` says that a signal handler ran or a cancellation was asked for: then it is up to the
    /// caller, who holds the mutex, to act on it.
    ///
    /// # Errors
    /// ETIMEDOUT; EPERM when the mutex is not the calling thread's; EOWNERDEAD and ENOTRECOVERABLE
    /// as `SharedMutex::lock`.
    pub fn wait(
        &self,
        mutex: &SharedMutex,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        // Before the mutex is unlocked: the thread that locks it next, and signals, sees it.
        let seen = self.sequence.fetch_or(WAITERS, Ordering::SeqCst);
        crash_point("condvar", "announced");
        mutex.unlock(me, futex)?;
        crash_point("condvar", "unlocked");
        let mut waits = || is_same(self.sequence.load(Ordering::SeqCst), seen);
        let ended = if futex.spin(1, &mut waits) || !self.announce_sleep(seen) {
            Ok(WaitEnd::Changed)
        } else {
            crash_point("condvar", "sleeps");
            // Who has lost the mutex's owner can do something about it.
            let mut sleeps = || waits() && !mutex.has_lost_owner(futex);
            futex.wait(&self.sequence, &mut sleeps, deadline)
        };
        crash_point("condvar", "woken");
        mutex.lock(me, futex, None)?;
        match ended? {
            WaitEnd::TimedOut => Err(Errno::TIMEDOUT),
            WaitEnd::Woken { .. } | WaitEnd::Changed | WaitEnd::Interrupted => Ok(()),
        }
    }

    /// Says that a thread sleeps that has seen the sequence so; false when that is another by now.
    /// Then nothing is written: the memory may have been given back.
    fn announce_sleep(&self, seen: u64) -> bool {
        let mut now = self.sequence.load(Ordering::Relaxed);
        while is_same(now, seen) && now & SLEEPERS == 0 {
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            match self.sequence.compare_exchange_weak(now, now | SLEEPERS, order.0, order.1) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        is_same(now, seen)
    }

    /// pthread_cond_signal(3).
    #[inline]
    pub fn signal(&self, futex: &dyn Futex) {
        if self.sequence.load(Ordering::SeqCst) & WAITERS != 0 {
            self.signal_slow(futex);
        }
    }

    /// pthread_cond_broadcast(3).
    #[inline]
    pub fn broadcast(&self, futex: &dyn Futex) {
        if self.sequence.load(Ordering::SeqCst) & WAITERS != 0 {
            self.broadcast_slow(futex);
        }
    }

    #[cold]
    #[inline(never)]
    fn signal_slow(&self, futex: &dyn Futex) {
        // A thread that is still spinning sees the step, and waits no more.
        let after = |before: u64| match before & SLEEPERS {
            0 => before.wrapping_add(STEP) & !WAITERS,
            _ => before.wrapping_add(STEP),
        };
        let before = self.replace(after);
        crash_point("condvar", "signalled");
        if before & SLEEPERS == 0 || futex.wake(&self.sequence, 1).more {
            return;
        }
        // The last one is awake. A thread that has begun to sleep since is woken as well: a signal
        // that comes now finds no waiter.
        let seen = after(before);
        let none = seen.wrapping_add(STEP) & !(WAITERS | SLEEPERS);
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        if self.sequence.compare_exchange(seen, none, order.0, order.1).is_ok() {
            crash_point("condvar", "cleared");
            futex.wake(&self.sequence, u32::MAX);
        }
    }

    /// Replaces the sequence by what `after` makes of it; what it was.
    fn replace(&self, after: impl Fn(u64) -> u64) -> u64 {
        let mut before = self.sequence.load(Ordering::Relaxed);
        loop {
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            match self.sequence.compare_exchange_weak(before, after(before), order.0, order.1) {
                Ok(_) => return before,
                Err(now) => before = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn broadcast_slow(&self, futex: &dyn Futex) {
        let before = self.replace(|before| before.wrapping_add(STEP) & !(WAITERS | SLEEPERS));
        crash_point("condvar", "broadcast");
        if before & SLEEPERS != 0 {
            futex.wake(&self.sequence, u32::MAX);
        }
    }
}

/// Whether no signal has come between.
fn is_same(now: u64, seen: u64) -> bool {
    (now ^ seen) < STEP
}
