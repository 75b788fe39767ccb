//! A second of the clock that is good for a while, shared by the threads of a process.
//!
//! # Memory ordering
//! The second and its tick are two words, so they are written under a sequence number: odd while a
//! thread writes. A reader takes the pair only when the number was even and is still the same
//! afterwards; the release fence after the number has become odd pairs with the reader's acquire
//! fence. No thread waits for another one: a thread that finds another one writing reads the clock
//! and stores nothing. So a thread may be stopped anywhere for any time, and a signal handler may
//! come in the middle: a pair is old as a whole or new as a whole, and 64 bits of writes do not
//! wrap.

use crate::atomic::{AtomicU64, Ordering, fence};

/// A second and the tick at which the clock was asked for it.
#[derive(Debug)]
pub struct RememberedSecond {
    /// Twice the number of pairs written; odd while one is being written.
    sequence: AtomicU64,
    second: AtomicU64,
    tick: AtomicU64,
}

impl RememberedSecond {
    /// Nothing remembered. (A model checker's atomics cannot be made at compile time.)
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self { sequence: AtomicU64::new(0), second: AtomicU64::new(0), tick: AtomicU64::new(0) }
    }

    /// Nothing remembered.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self { sequence: AtomicU64::new(0), second: AtomicU64::new(0), tick: AtomicU64::new(0) }
    }

    /// The second, if the clock was asked less than `span` ticks before `now`.
    #[inline]
    #[must_use]
    pub fn recall(&self, now: u64, span: u64) -> Option<u32> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let second = self.second.load(Ordering::Relaxed);
        let tick = self.tick.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let whole = sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence;
        (whole && second != 0 && now.wrapping_sub(tick) < span).then_some(second as u32)
    }

    /// Remembers that the clock said `second` when it was asked at `tick` or later.
    pub fn remember(&self, tick: u64, second: u32) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let odd = sequence.wrapping_add(1);
        if !sequence.is_multiple_of(2)
            || self
                .sequence
                .compare_exchange(sequence, odd, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        // A thread that reads one of the stores below reads the odd number, too.
        fence(Ordering::Release);
        self.tick.store(tick, Ordering::Relaxed);
        self.second.store(second.into(), Ordering::Relaxed);
        self.sequence.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// For the only thread of a process that `fork` has made: another one may have been writing.
    pub fn start_over(&self) {
        self.second.store(0, Ordering::Relaxed);
        self.sequence.store(0, Ordering::Release);
    }
}

impl Default for RememberedSecond {
    fn default() -> Self {
        Self::new()
    }
}
