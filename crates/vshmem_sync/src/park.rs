//! Sleeping until a word of the pool changes, and waking the sleeper.
//!
//! The truth is always the sleeper's wait cell in the pool. A wait word, which lies where this
//! kernel can sleep on it, only tells the sleeper to look again; so a ring that is lost or one too
//! many does no harm.
//!
//! Memory ordering: the sleeper announces itself in the wait word and then looks at the cell; the
//! waker changes the cell and then looks at the wait word. Both use sequentially consistent
//! accesses there, so at least one of them sees the other.

use std::time::Duration;

use vshmem_mem::{
    AtomicU32, Beside, FutexOutcome, Instant, Map, Ordering, RING, SLEEPING, futex_wake,
    signals_handled, sleep, spin_hint,
};

use crate::Fault;

/// Where the wait words of this domain lie.
#[derive(Debug)]
pub struct WaitWords {
    map: std::sync::Arc<Map>,
    base: u64,
    stride: u64,
}

impl WaitWords {
    /// Words at `base`, one every `stride` bytes.
    #[must_use]
    pub fn new(map: std::sync::Arc<Map>, base: u64, stride: u64) -> Self {
        Self { map, base, stride }
    }

    /// The word of a slot, or one that lies behind those of all slots.
    ///
    /// # Errors
    /// When there is no such word.
    pub fn of(&self, slot: u32) -> Result<&AtomicU32, Fault> {
        Ok(self.map.futex(self.base + u64::from(slot) * self.stride)?)
    }
}

/// Wakes the thread in `slot`, if it sleeps on these words. Says whether it did.
///
/// # Errors
/// When there is no such word.
pub fn ring(words: &WaitWords, slot: u32) -> Result<bool, Fault> {
    let word = words.of(slot)?;
    let before = word.fetch_add(RING, Ordering::SeqCst);
    Ok(before & SLEEPING != 0 && futex_wake(word))
}

impl WaitWords {
    /// Whether the thread in `slot` of this domain sleeps, or is about to look before it does.
    #[must_use]
    pub fn is_asleep(&self, slot: u32) -> bool {
        self.of(slot).is_ok_and(|word| word.load(Ordering::SeqCst) & SLEEPING != 0)
    }
}

/// How a wait went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// What was waited for may have happened.
    Changed,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The interval for looking again is over; nothing has been seen.
    Recheck,
}

/// Learns from its own success how long it pays to look before sleeping.
#[derive(Debug)]
pub struct Spin {
    looks: AtomicU32,
    /// Waits until the next try.
    left: AtomicU32,
    /// Waits from one try to the next.
    apart: AtomicU32,
    most: u32,
}

/// One wait in so many is a try: as long as can be, whatever was learned. Two that wait for each other take a wake-up each
/// to answer once they sleep, which is longer than a short look: without it, neither would ever look for longer again.
const TRY_EVERY: u32 = 128;
/// Tries that fail come to be so many waits apart: the two may share a CPU.
const TRY_SELDOM: u32 = 1024;
/// Whatever was learned, this part of the longest wait is always spent looking.
const LEAST_PART: u32 = 512;

impl Spin {
    /// Never looks more than `most` times; not at all if that is 0.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            looks: AtomicU32::new(most / 2),
            left: AtomicU32::new(TRY_EVERY),
            apart: AtomicU32::new(TRY_EVERY),
            most,
        }
    }

    /// Looks until `changed` says so or patience is over; says which it was.
    pub fn until(&self, mut changed: impl FnMut() -> bool) -> bool {
        let learned = self.looks.load(Ordering::Relaxed);
        let is_try = self.is_try();
        let looks = if is_try { self.most } else { learned.max(self.most / LEAST_PART) };
        for look in 0..looks {
            if changed() {
                // Success: next time, twice as long as was allowed or as it took.
                self.looks.store((learned.max(look) * 2 + 1).min(self.most), Ordering::Relaxed);
                if is_try {
                    self.apart.store(TRY_EVERY, Ordering::Relaxed);
                }
                return true;
            }
            for _ in 0..4 {
                spin_hint();
            }
        }
        self.looks.store(learned - learned.div_ceil(4), Ordering::Relaxed);
        false
    }

    /// Whether this wait is a try. Other threads may count the same wait: it is only now and then.
    fn is_try(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(1);
        self.left.store(left, Ordering::Relaxed);
        if left > 0 {
            return false;
        }
        let apart = self.apart.load(Ordering::Relaxed);
        self.left.store(apart, Ordering::Relaxed);
        self.apart.store((apart * 2).min(TRY_SELDOM), Ordering::Relaxed);
        true
    }
}

/// Waits until `changed`, for at most `recheck`; the thread really sleeps after a short spin.
///
/// `seen` is what [`signals_handled`] returned when the call began. A change of the word `beside` ends the sleep too; who
/// finds it changed wakes all others that sleep on it.
///
/// # Errors
/// When there is no wait word for `slot`.
#[expect(clippy::too_many_arguments, reason = "all that a sleep depends on")]
pub fn park(
    words: &WaitWords,
    slot: u32,
    spin: Option<&Spin>,
    deadline: Option<Instant>,
    recheck: Duration,
    beside: Option<Beside<'_>>,
    seen: u32,
    mut changed: impl FnMut() -> bool,
) -> Result<Parked, Fault> {
    if let Some(spin) = spin
        && spin.until(|| signals_handled() != seen || changed())
    {
        return Ok(if changed() { Parked::Changed } else { Parked::Interrupted });
    }
    let word = words.of(slot)?;
    let announced = word.fetch_or(SLEEPING, Ordering::SeqCst) | SLEEPING;
    let parked = if changed() {
        Ok(Parked::Changed)
    } else {
        let (span, last) = match deadline {
            Some(deadline) => {
                let left = deadline.remaining(Instant::now());
                (left.min(recheck), left <= recheck)
            }
            None => (recheck, false),
        };
        let outcome = if span.is_zero() {
            FutexOutcome::TimedOut
        } else {
            sleep(word, announced, beside, span, seen)
        };
        if let Some(other) = beside
            && other.word.load(Ordering::SeqCst) != other.expected
        {
            futex_wake(other.word);
        }
        match outcome {
            _ if changed() => Ok(Parked::Changed),
            FutexOutcome::Interrupted => Ok(Parked::Interrupted),
            FutexOutcome::TimedOut if last => Ok(Parked::TimedOut),
            FutexOutcome::Refused(errno) => Err(Fault::Refused(errno)),
            _ => Ok(Parked::Recheck),
        }
    };
    word.fetch_and(!SLEEPING, Ordering::SeqCst);
    parked
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_look_does_not() {
        let spin = Spin::new(0);
        let mut looks = 0;
        for _ in 0..10 {
            assert!(!spin.until(|| {
                looks += 1;
                true
            }));
        }
        assert_eq!(looks, 0);
        assert!(Spin::new(64).until(|| true));
    }

    /// Answers at the `nth` look of each wait.
    fn wait_for(spin: &Spin, nth: u32) -> bool {
        let mut looks = 0;
        spin.until(|| {
            looks += 1;
            looks > nth
        })
    }

    #[test]
    fn who_has_stopped_looking_tries_again_now_and_then() {
        let spin = Spin::new(640);
        let answer = 300;
        for _ in 0..100 {
            wait_for(&spin, u32::MAX - 1);
        }
        assert!(!wait_for(&spin, answer), "it sleeps at once by now");
        let tries = (0..=TRY_SELDOM).position(|_| wait_for(&spin, answer));
        assert!(tries.is_some(), "the answer comes in time for a long look");
        assert!((0..50).all(|_| wait_for(&spin, answer)), "and from then on it is waited for");
    }
}
