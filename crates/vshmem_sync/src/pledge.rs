//! Semaphore operations without the lock: one compare-and-swap, or with SEM_UNDO two.
//!
//! An operation with SEM_UNDO changes two words: the semaphore's, and this client's adjustment. A
//! client may be killed between the two, and must then have done both or neither. So it first
//! *pledges*: it swaps the adjustment for one that names the operation it is about to do. Then
//! it swaps the semaphore's word for one that shows the operation: the UNDO flag, the undo
//! record, the version. The second swap is the commit. Whether a pledge counts is told by the
//! semaphore's word alone:
//!
//! * the word shows it: it counts, and whoever replaces that word settles the pledge first;
//! * the word is the one before: it is not decided yet. Its owner may go on at any time, so
//!   somebody who has to know replaces the word by an equal one, and then it can not;
//! * the word is any other: it never will.
//!
//! The owner itself leaves the pledge of its last operation as it is, and settles it together with
//! its next pledge.
//!
//! # Memory ordering
//! Words are read with acquire and replaced with sequentially consistent swaps, so that a hand-over
//! carries what was written before it. Where two words have to be seen at one instant, the first
//! is read, then the second, then the first again.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{Adjustment, SemWord};

use crate::{Fault, crash_point};

/// Turns after which a word that others keep changing is believed to be a peer's mischief.
const MOST_TURNS: u32 = 1 << 20;

/// Finds what an undo record says.
pub trait UndoRecords {
    /// Offset of the record's adjustment of the semaphore. `None` when there is no such record of
    /// this set.
    ///
    /// # Errors
    /// When the record cannot be read.
    fn adjustment(&self, record: u32) -> Result<Option<u64>, Fault>;

    /// The record's owner as a `Party`; 0 when there is none.
    ///
    /// # Errors
    /// When the record cannot be read.
    fn operator(&self, record: u32) -> Result<u32, Fault>;
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operated {
    /// It is done.
    Done,
    /// It would have to wait.
    Blocks,
    /// The value would rise above the limit.
    TooHigh,
    /// The fast way is closed, or not for this operation.
    Closed,
}

/// One semaphore, by the offset of its word.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore<'a, R> {
    /// The pool.
    pub map: &'a Map,
    /// Offset of its word.
    pub at: u64,
    /// The set's undo records.
    pub records: R,
}

impl<R: UndoRecords> Semaphore<'_, R> {
    /// Adds `change`, or for 0 waits for zero, on behalf of `party`. `stands` tells, after the word
    /// was read, whether the set is still there.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[inline]
    pub fn operate(
        &self,
        change: i16,
        highest: u32,
        party: u32,
        stands: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        for _ in 0..MOST_TURNS {
            let raw = self.map.load(self.at, Ordering::Acquire)?;
            let word = SemWord::unpack(raw);
            if word.slow || !stands()? {
                return Ok(Operated::Closed);
            }
            let value = match sum(word, change, highest) {
                Ok(value) => value,
                Err(answer) => return Ok(answer),
            };
            if word.undo {
                self.settle(raw)?;
            }
            if self.map.replace(self.at, raw, word.after(value, party, false).pack())? {
                crash_point("semop-fast", "done");
                return Ok(Operated::Done);
            }
        }
        Err(Fault::corrupt(self.at, "a semaphore that never stands still"))
    }

    /// Adds `change`, which is not 0, and takes it from the adjustment at `adjustment_at` of the
    /// undo record `record`, which is the caller's.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[inline]
    pub fn operate_undoable(
        &self,
        change: i16,
        highest: u32,
        record: u32,
        adjustment_at: u64,
        stands: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        for _ in 0..MOST_TURNS {
            let raw = self.map.load(self.at, Ordering::Acquire)?;
            let word = SemWord::unpack(raw);
            if word.slow || !stands()? {
                return Ok(Operated::Closed);
            }
            let value = match sum(word, change, highest) {
                Ok(value) => value,
                Err(answer) => return Ok(answer),
            };
            let old = self.map.load(adjustment_at, Ordering::Acquire)?;
            let adjustment = Adjustment::unpack(old);
            let total = if adjustment.closed {
                return Ok(Operated::Closed);
            } else if !adjustment.pledged {
                adjustment.total
            } else if word.undo && word.operator == record && word.mark() == adjustment.mark {
                if self.map.load(self.at, Ordering::Acquire)? != raw {
                    continue;
                }
                adjustment.kept()
            } else {
                self.resolve(record, adjustment_at)?;
                continue;
            };
            let Some(pledge) = change.checked_neg().filter(|p| total.checked_add(*p).is_some())
            else {
                return Ok(Operated::Closed);
            };
            if word.undo && word.operator != record {
                self.settle(raw)?;
            }
            let next = word.after_undoable(value, record);
            let pledged = adjustment.after_pledging(total, pledge, next.mark());
            if !self.map.replace(adjustment_at, old, pledged.pack())? {
                continue;
            }
            crash_point("semop-undo", "pledged");
            if self.map.replace(self.at, raw, next.pack())? {
                crash_point("semop-undo", "done");
                return Ok(Operated::Done);
            }
        }
        Err(Fault::corrupt(self.at, "a semaphore that never stands still"))
    }

    /// Makes the pledge count that the word `raw`, which has the UNDO flag, may show. Nothing
    /// happens if the word is no longer that.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[cold]
    pub fn settle(&self, raw: u64) -> Result<(), Fault> {
        let word = SemWord::unpack(raw);
        let Some(at) = self.records.adjustment(word.operator)? else {
            return Ok(());
        };
        let old = self.map.load(at, Ordering::Acquire)?;
        let adjustment = Adjustment::unpack(old);
        if adjustment.pledged
            && adjustment.mark == word.mark()
            && self.map.load(self.at, Ordering::Acquire)? == raw
        {
            let kept = adjustment.after(adjustment.kept(), false);
            self.map.replace(at, old, kept.pack())?;
            crash_point("semop-settle", "settled");
        }
        Ok(())
    }

    /// The word as it is, to be compared with a later one.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline]
    pub fn glance(&self) -> Result<u64, Fault> {
        Ok(self.map.load(self.at, Ordering::Acquire)?)
    }

    /// Whether the fast way is closed.
    ///
    /// # Errors
    /// When the word is outside the pool.
    pub fn is_closed(&self) -> Result<bool, Fault> {
        Ok(SemWord::unpack(self.glance()?).slow)
    }

    /// The word, and who operated last as a `Party`.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn read(&self) -> Result<(SemWord, u32), Fault> {
        for _ in 0..MOST_TURNS {
            let raw = self.map.load(self.at, Ordering::Acquire)?;
            let word = SemWord::unpack(raw);
            if !word.undo {
                return Ok((word, word.operator));
            }
            let operator = self.records.operator(word.operator)?;
            // A record is not given to another before no word names it.
            if self.map.load(self.at, Ordering::Acquire)? == raw {
                return Ok((word, operator));
            }
        }
        Err(Fault::corrupt(self.at, "a semaphore that never stands still"))
    }

    /// Makes the word name no longer an undo record that is about to go, nor anything that its
    /// owner could still do without the lock: its adjustment is closed.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn forget(&self, record: u32) -> Result<(), Fault> {
        for _ in 0..MOST_TURNS {
            let raw = self.map.load(self.at, Ordering::Acquire)?;
            let word = SemWord::unpack(raw);
            if !word.undo || word.operator != record || self.restate(raw, false)?.is_some() {
                return Ok(());
            }
        }
        Err(Fault::corrupt(self.at, "a semaphore that never stands still"))
    }

    /// Replaces the word, if it is still `raw`, by an equal one that names its operator, and closes
    /// the fast way if `slow`. Says what stands there now, if it did.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn restate(&self, raw: u64, slow: bool) -> Result<Option<SemWord>, Fault> {
        let word = SemWord::unpack(raw);
        let mut operator = word.operator;
        if word.undo {
            self.settle(raw)?;
            operator = self.records.operator(word.operator)?;
        }
        let next = word.after(word.value, operator, slow);
        Ok(self.map.replace(self.at, raw, next.pack())?.then_some(next))
    }

    /// Decides whether the pledge of an adjustment counts, and writes that down. Returns what then
    /// stands there.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn resolve(&self, record: u32, adjustment_at: u64) -> Result<u64, Fault> {
        for _ in 0..MOST_TURNS {
            let old = self.map.load(adjustment_at, Ordering::Acquire)?;
            let adjustment = Adjustment::unpack(old);
            if !adjustment.pledged {
                return Ok(old);
            }
            let raw = self.map.load(self.at, Ordering::Acquire)?;
            let word = SemWord::unpack(raw);
            if self.map.load(adjustment_at, Ordering::Acquire)? != old {
                continue;
            }
            let total = if word.undo && word.operator == record && word.mark() == adjustment.mark {
                adjustment.kept()
            } else if !word.slow && word.mark().wrapping_add(1) == adjustment.mark {
                self.restate(raw, false)?;
                continue;
            } else {
                adjustment.total
            };
            let next = adjustment.after(total, adjustment.closed).pack();
            if self.map.replace(adjustment_at, old, next)? {
                crash_point("semop-resolve", "resolved");
                return Ok(next);
            }
        }
        Err(Fault::corrupt(adjustment_at, "an adjustment that never stands still"))
    }

    /// Closes the fast way to an adjustment, and returns its word. No pledge is left in it.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn close_adjustment(&self, record: u32, adjustment_at: u64) -> Result<u64, Fault> {
        for _ in 0..MOST_TURNS {
            let old = self.resolve(record, adjustment_at)?;
            let adjustment = Adjustment::unpack(old);
            if adjustment.closed {
                return Ok(old);
            }
            let closed = adjustment.after(adjustment.total, true).pack();
            if self.map.replace(adjustment_at, old, closed)? {
                crash_point("semop-undo", "closed");
                return Ok(closed);
            }
        }
        Err(Fault::corrupt(adjustment_at, "an adjustment that never stands still"))
    }
}

/// The value after an operation.
#[inline]
fn sum(word: SemWord, change: i16, highest: u32) -> Result<u32, Operated> {
    let value = word.value as i32 + i32::from(change);
    if value < 0 || (change == 0 && value != 0) {
        return Err(Operated::Blocks);
    }
    if value > highest as i32 {
        return Err(Operated::TooHigh);
    }
    Ok(value as u32)
}
