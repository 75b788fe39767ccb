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
    AtomicU32, FutexOutcome, Instant, Map, Ordering, RING, SLEEPING, futex_wake, signals_handled,
    sleep, spin_hint,
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

    fn of(&self, slot: u32) -> Result<&AtomicU32, Fault> {
        Ok(self.map.futex(self.base + u64::from(slot) * self.stride)?)
    }
}

/// Wakes the thread in `slot`, if it sleeps in this kernel.
///
/// # Errors
/// When there is no such word.
pub fn ring(words: &WaitWords, slot: u32) -> Result<(), Fault> {
    let word = words.of(slot)?;
    let before = word.fetch_add(RING, Ordering::SeqCst);
    if before & SLEEPING != 0 {
        futex_wake(word);
    }
    Ok(())
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
    most: u32,
}

impl Spin {
    /// Never looks longer than `most` times.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { looks: AtomicU32::new(most / 2), most }
    }

    /// Looks until `changed` says so or patience is over.
    fn until(&self, mut changed: impl FnMut() -> bool) -> bool {
        let looks = self.looks.load(Ordering::Relaxed);
        for _ in 0..looks.max(self.most / 64) {
            if changed() {
                // Success: look twice as long next time.
                self.looks.store((looks * 2 + 1).min(self.most), Ordering::Relaxed);
                return true;
            }
            for _ in 0..4 {
                spin_hint();
            }
        }
        self.looks.store(looks - looks / 4, Ordering::Relaxed);
        false
    }
}

/// Waits until `changed`, for at most `recheck`; the thread really sleeps after a short spin.
///
/// `seen` is what [`signals_handled`] returned when the call began.
///
/// # Errors
/// When there is no wait word for `slot`.
pub fn park(
    words: &WaitWords,
    slot: u32,
    spin: Option<&Spin>,
    deadline: Option<Instant>,
    recheck: Duration,
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
        Parked::Changed
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
            sleep(word, announced, span, seen)
        };
        match outcome {
            _ if changed() => Parked::Changed,
            FutexOutcome::Interrupted => Parked::Interrupted,
            FutexOutcome::TimedOut if last => Parked::TimedOut,
            _ => Parked::Recheck,
        }
    };
    word.fetch_and(!SLEEPING, Ordering::SeqCst);
    Ok(parked)
}
