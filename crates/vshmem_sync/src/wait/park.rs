//! Sleeping until a word of the pool changes, and waking the waiter.

use std::time::Duration;

use vshmem_mem::{
    AtomicU32, FutexOutcome, Instant, Map, Ordering, SLEEPING, SecondWord, WAKE, futex_wake, sleep,
};

use crate::fault::Fault;

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
pub fn wake(words: &WaitWords, slot: u32) -> Result<bool, Fault> {
    Ok(wake_word(words.of(slot)?))
}

/// Wakes the thread that sleeps on a wait word, if one does. Says whether it did.
pub fn wake_word(word: &AtomicU32) -> bool {
    // Barrier WAKE: pairs with SLEEP in `park`. The cell was changed before it.
    let before = word.fetch_add(WAKE, Ordering::SeqCst);
    before & SLEEPING != 0 && futex_wake(word)
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
pub enum ParkResult {
    /// What was waited for may have happened.
    Changed,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The interval for looking again is over; nothing has been seen.
    Recheck,
}

/// Sleeps until `changed`, for at most `recheck`.
///
/// `seen` is what `vshmem_mem::signals_handled` returned when the call began. A change of the word
/// `second_word` ends the sleep too; a thread that finds it changed wakes all others that sleep on
/// it.
///
/// # Errors
/// When there is no wait word for `slot`.
pub fn park(
    words: &WaitWords,
    slot: u32,
    deadline: Option<Instant>,
    recheck: Duration,
    second_word: Option<SecondWord<'_>>,
    seen: u32,
    mut changed: impl FnMut() -> bool,
) -> Result<ParkResult, Fault> {
    let word = words.of(slot)?;
    // Barrier SLEEP: pairs with WAKE in `wake_word`. The look at the cell comes after it.
    let announced = word.fetch_or(SLEEPING, Ordering::SeqCst) | SLEEPING;
    let park_result = if changed() {
        Ok(ParkResult::Changed)
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
            sleep(word, announced, second_word, span, seen)
        };
        if let Some(other) = second_word
            && other.word.load(Ordering::SeqCst) != other.expected
        {
            futex_wake(other.word);
        }
        match outcome {
            _ if changed() => Ok(ParkResult::Changed),
            FutexOutcome::Interrupted => Ok(ParkResult::Interrupted),
            FutexOutcome::TimedOut if last => Ok(ParkResult::TimedOut),
            FutexOutcome::Refused(errno) => Err(Fault::Refused(errno)),
            _ => Ok(ParkResult::Recheck),
        }
    };
    word.fetch_and(!SLEEPING, Ordering::SeqCst);
    park_result
}
