//! Semaphore operations without the lock: one compare-and-swap, or with SEM_UNDO two. Arrays of them are in [`crate::array`].
//!
//! An operation with SEM_UNDO changes two cells: the semaphore, and this client's adjustment. A
//! client may be killed between the two, and must then have done both or neither. So it first
//! *pledges*: it swaps the adjustment for one that names the operation it is about to do, by the tag that the
//! semaphore will have after it. Then it swaps the semaphore's word for one that shows the operation: the UNDO flag and
//! the undo record. The second swap is the commit. Whether a pledge counts is told by the semaphore alone:
//!
//! * it shows the operation: the pledge counts, and whoever replaces that word settles the pledge first;
//! * its tag is the one before: it is not decided yet. Its owner may go on at any time, so
//!   somebody who has to know replaces the word by an equal one, which raises the tag, and then it can not;
//! * anything else: it never will.
//!
//! The owner itself leaves the pledge of its last operation as it is, and settles it together with
//! its next pledge.
//!
//! # The order of reading
//! Each step here that writes an adjustment has read, in this order: the adjustment; the semaphore; and then whether the set and the
//! undo record still stand. Its compare-and-swap is against the adjustment that was read first.
//!
//! * *Adjustment before semaphore.* Every operation of the record's owner, whichever thread does it, writes the adjustment
//!   before the semaphore. So as long as the adjustment is what it was, the owner's last operation is the one it names, and what
//!   the semaphore says afterwards decides it. Read the other way round, a thread could pledge for a state of the semaphore that another
//!   thread of the same process has brought about since, and take that operation for its own.
//! * *Both before the question whether they stand.* Who gives a record or a set up first closes all its cells, which raises
//!   their tags, and only then does the memory become something else. So what was read before the question belonged to the
//!   record, and if it is given up after the question, then the tag has risen and the swap is refused. What lies there
//!   next starts above every tag that was there before (`Registry::tag_floor`).
//!
//!
//! An operation reads the tag of either cell and then the word, and no more. Should the two not belong together, then the cell has been written since the
//! tag was read, and whatever is concluded ends in a swap that is refused: that of the semaphore by its tag; that of the adjustment because
//! what has replaced the word that the pledge decides on has written the adjustment first.
//!
//! # How long a mark must be
//! A pledge names the tag by its low 30 bits. It would be taken for done by mistake if the semaphore showed another operation of the same
//! record, under a tag with the same low bits. But as long as a pledge stands, the owner has begun no other operation, because each
//! begins by writing the adjustment; and whoever pledged has decided the pledge before it. So the semaphore can only show the operation that the pledge is for, or the owner's last
//! one before it. If it showed that one when the pledge was made, then the pledge names the very next tag; if it did not, it never will
//! again. (One bit would do.) To be taken for undecided by mistake costs a restatement and no more.
//!
//! # Memory ordering
//! Cells are read with acquire and replaced with sequentially consistent swaps, so that a hand-over
//! carries what was written before it.

use vshmem_mem::Map;
use vshmem_wire::{Adjustment, Cell, SemWord};

use crate::{Fault, crash_point, load_cell, load_word};

mod array;

pub use array::SemaphoreArray;

/// Turns after which a word that others keep changing is believed to be a peer's mischief.
const MOST_TURNS: u32 = 1 << 20;

/// Finds what an undo record says.
pub trait UndoRecords {
    /// Whether the semaphore still lies where it was found: its set is not taken apart yet.
    ///
    /// # Errors
    /// When the set cannot be read.
    fn stand(&self) -> Result<bool, Fault>;

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

/// One semaphore, by the offset of its cell.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore<'a, R> {
    /// The pool.
    pub map: &'a Map,
    /// Offset of its cell.
    pub at: u64,
    /// Offset of the cell of the set's last array of operations.
    pub array: u64,
    /// The set's undo records.
    pub records: R,
}

impl<R: UndoRecords> Semaphore<'_, R> {
    /// Adds `change`, or for 0 waits for zero, on behalf of `party`. `stands` tells, after the word
    /// was read, whether the set is still there.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[inline(always)]
    pub fn operate(
        &self,
        change: i16,
        highest: u32,
        party: u32,
        stands: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        self.replace_value(party, stands, move |value| sum(value, change, highest))
    }

    /// Replaces the value by what `next` makes of it, on behalf of `party`. `stands` as above.
    #[inline(always)]
    pub(crate) fn replace_value(
        &self,
        party: u32,
        stands: impl Fn() -> Result<bool, Fault>,
        next: impl Fn(u32) -> Result<u32, Operated> + Copy,
    ) -> Result<Operated, Fault> {
        let cell = self.map.cell_ref(self.at)?;
        for _ in 0..MOST_TURNS {
            let seen = cell.load_to_replace();
            let word = SemWord::unpack(seen.word);
            if word.slow || !stands()? {
                return Ok(Operated::Closed);
            }
            if word.tentative {
                match self.finish(seen, next)? {
                    Some(answer) => return Ok(answer),
                    None => continue,
                }
            }
            let value = match next(word.value) {
                Ok(value) => value,
                Err(answer) => return Ok(answer),
            };
            if word.undo {
                self.settle(seen)?;
            }
            let next = SemWord::of(value, party, false);
            if cell.replace(seen, next.pack()) {
                crash_point("semop-fast", "done");
                return Ok(Operated::Done);
            }
        }
        Err(self.restless())
    }

    /// Adds `change`, which is not 0, and takes it from the adjustment at `adjustment_at` of the
    /// undo record `record`, which is the caller's. `stands` tells, after both were read, whether the set is still there and
    /// the record still the caller's.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[inline(always)]
    pub fn operate_undoable(
        &self,
        change: i16,
        highest: u32,
        record: u32,
        adjustment_at: u64,
        stands: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        // Found before the swaps: whatever is looked up between the two, the second waits for.
        let (adjusted, cell) = (self.map.cell_ref(adjustment_at)?, self.map.cell_ref(self.at)?);
        for _ in 0..MOST_TURNS {
            let old = adjusted.load_to_replace();
            let seen = cell.load_to_replace();
            let (adjustment, word) = (Adjustment::unpack(old.word), SemWord::unpack(seen.word));
            if adjustment.closed || word.slow || !stands()? {
                return Ok(Operated::Closed);
            }
            if word.tentative {
                match self.finish(seen, move |value| sum(value, change, highest))? {
                    Some(answer) => return Ok(answer),
                    None => continue,
                }
            }
            let value = match sum(word.value, change, highest) {
                Ok(value) => value,
                Err(answer) => return Ok(answer),
            };
            let total = if !adjustment.pledged {
                adjustment.total
            } else if shows(seen, record, adjustment) {
                adjustment.kept()
            } else {
                self.decide(record, adjustment_at, old, seen)?;
                continue;
            };
            let Some(pledge) = change.checked_neg().filter(|p| total.checked_add(*p).is_some())
            else {
                return Ok(Operated::Closed);
            };
            if word.undo && word.operator != record {
                self.settle(seen)?;
            }
            let next = seen.successor(SemWord::of_undoable(value, record).pack());
            let pledged = Adjustment::pledging(total, pledge, next.tag);
            if !adjusted.replace(old, pledged.pack()) {
                continue;
            }
            crash_point("semop-undo", "pledged");
            if cell.replace(seen, next.word) {
                crash_point("semop-undo", "done");
                return Ok(Operated::Done);
            }
        }
        Err(self.restless())
    }

    /// Makes the pledge count that the semaphore, which was `seen` with the UNDO flag, may show. Nothing
    /// happens if it is no longer that.
    ///
    /// # Errors
    /// When the pool does not make sense.
    #[cold]
    pub fn settle(&self, seen: Cell) -> Result<(), Fault> {
        let record = SemWord::unpack(seen.word).operator;
        let Some(at) = self.records.adjustment(record)? else {
            return Ok(());
        };
        let old = load_cell(self.map, at)?;
        let adjustment = Adjustment::unpack(old.word);
        // A record is not given up before no semaphore names it: so if this one still does, then what was read is the record's.
        if adjustment.pledged
            && shows(seen, record, adjustment)
            && load_cell(self.map, self.at)? == seen
        {
            let kept = Adjustment::of(adjustment.kept(), adjustment.closed);
            self.map.replace_cell(at, old, kept.pack())?;
            crash_point("semop-settle", "settled");
        }
        Ok(())
    }

    /// A number that differs from an earlier one if the value has changed in between.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline]
    pub fn glance(&self) -> Result<u64, Fault> {
        let word = load_word(self.map, self.at)?;
        let is_tentative = SemWord::unpack(word).tentative;
        // An array that happens changes its own word and not the semaphore's.
        let array = if is_tentative { load_word(self.map, self.array)? } else { 0 };
        Ok(word ^ array.rotate_left(32))
    }

    /// Whether the fast way is closed.
    ///
    /// # Errors
    /// When the word is outside the pool.
    pub fn is_closed(&self) -> Result<bool, Fault> {
        Ok(SemWord::unpack(load_word(self.map, self.at)?).slow)
    }

    /// The word, and who operated last as a `Party`.
    ///
    /// # Errors
    /// When the pool does not make sense.
    pub fn read(&self) -> Result<(SemWord, u32), Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            let word = SemWord::unpack(seen.word);
            if word.tentative {
                // Who had operated before an array that was called off is not known any more.
                match self.amount(seen)? {
                    Some((value, _)) => {
                        return Ok((SemWord::of(value, word.operator, false), word.operator));
                    }
                    None => continue,
                }
            }
            if !word.undo {
                return Ok((word, word.operator));
            }
            let operator = self.records.operator(word.operator)?;
            // A record is not given to another before no word names it.
            if load_cell(self.map, self.at)? == seen {
                return Ok((word, operator));
            }
        }
        Err(self.restless())
    }

    /// Closes the fast way to the semaphore, and returns what then stands there.
    ///
    /// # Errors
    /// When the pool does not make sense, or the set has gone.
    pub fn close(&self) -> Result<Cell, Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            if SemWord::unpack(seen.word).slow {
                return Ok(seen);
            }
            self.require(self.records.stand()?)?;
            if let Some(closed) = self.restate(seen, true)? {
                return Ok(closed);
            }
        }
        Err(self.restless())
    }

    /// Makes the word name no longer an undo record that is about to go, nor anything that its
    /// owner could still do without the lock: its adjustment is closed.
    ///
    /// # Errors
    /// When the pool does not make sense, or the set has gone.
    pub fn forget(&self, record: u32) -> Result<(), Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            let word = SemWord::unpack(seen.word);
            if !word.undo || word.operator != record {
                return Ok(());
            }
            self.require(self.records.stand()?)?;
            if self.restate(seen, false)?.is_some() {
                return Ok(());
            }
        }
        Err(self.restless())
    }

    /// Replaces the word, if the semaphore is still `seen`, by an equal one that names its operator, and closes
    /// the fast way if `slow`. Says what stands there now, if it did.
    ///
    /// That the set still stands was asked after `seen` was read.
    pub(crate) fn restate(&self, seen: Cell, slow: bool) -> Result<Option<Cell>, Fault> {
        let word = SemWord::unpack(seen.word);
        let (mut value, mut operator) = (word.value, word.operator);
        if word.undo {
            self.settle(seen)?;
            operator = self.records.operator(word.operator)?;
        } else if word.tentative {
            match self.decided(seen)? {
                Some(decided) => value = decided,
                None => return Ok(None),
            }
        }
        let next = SemWord::of(value, operator, slow).pack();
        Ok(self.map.replace_cell(self.at, seen, next)?.then(|| seen.successor(next)))
    }

    /// Decides whether the pledge of an adjustment counts that was `old` before the semaphore was `seen`, and writes that down. Returns what
    /// then stands there, or nothing: then it has to be looked at again.
    fn decide(
        &self,
        record: u32,
        adjustment_at: u64,
        old: Cell,
        seen: Cell,
    ) -> Result<Option<Cell>, Fault> {
        let adjustment = Adjustment::unpack(old.word);
        let total = if shows(seen, record, adjustment) {
            adjustment.kept()
        } else if !SemWord::unpack(seen.word).slow
            && Adjustment::mark_of(seen.tag.wrapping_add(1)) == adjustment.mark
        {
            self.restate(seen, false)?;
            return Ok(None);
        } else {
            adjustment.total
        };
        let next = Adjustment::of(total, adjustment.closed).pack();
        let decided = self.map.replace_cell(adjustment_at, old, next)?;
        crash_point("semop-resolve", "resolved");
        Ok(decided.then(|| old.successor(next)))
    }

    /// Closes the fast way to an adjustment, and returns what then stands there. No pledge is left in it.
    ///
    /// # Errors
    /// When the pool does not make sense, or the record has been given up.
    pub fn close_adjustment(&self, record: u32, adjustment_at: u64) -> Result<Cell, Fault> {
        for _ in 0..MOST_TURNS {
            let old = load_cell(self.map, adjustment_at)?;
            let seen = load_cell(self.map, self.at)?;
            let adjustment = Adjustment::unpack(old.word);
            if adjustment.closed && !adjustment.pledged {
                return Ok(old);
            }
            self.require(self.records.adjustment(record)? == Some(adjustment_at))?;
            if adjustment.pledged {
                self.decide(record, adjustment_at, old, seen)?;
                continue;
            }
            let closed = Adjustment::of(adjustment.total, true).pack();
            if self.map.replace_cell(adjustment_at, old, closed)? {
                crash_point("semop-undo", "closed");
                return Ok(old.successor(closed));
            }
        }
        Err(Fault::corrupt(adjustment_at, "an adjustment that never stands still"))
    }

    /// What has gone while its lock was held has gone because the lock was lost, or a peer has written nonsense. The lock tells
    /// which.
    fn require(&self, stands: bool) -> Result<(), Fault> {
        if stands { Ok(()) } else { Err(Fault::corrupt(self.at, "a semaphore that has gone")) }
    }

    pub(crate) fn restless(&self) -> Fault {
        Fault::corrupt(self.at, "a semaphore that never stands still")
    }
}

/// Whether a semaphore shows the operation that the pledge of an adjustment of `record` is for.
#[inline]
fn shows(seen: Cell, record: u32, adjustment: Adjustment) -> bool {
    let word = SemWord::unpack(seen.word);
    word.undo && word.operator == record && Adjustment::mark_of(seen.tag) == adjustment.mark
}

/// The value after an operation.
#[inline]
pub(crate) fn sum(before: u32, change: i16, highest: u32) -> Result<u32, Operated> {
    let value = before as i32 + i32::from(change);
    if value < 0 || (change == 0 && value != 0) {
        return Err(Operated::Blocks);
    }
    if value > highest as i32 {
        return Err(Operated::TooHigh);
    }
    Ok(value as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: u64 = 0;
    const B: u64 = 16;
    const C: u64 = 32;

    /// Records of a pool in which a peer writes each cell again whenever it has been looked at.
    #[derive(Debug)]
    struct Restless<'a>(&'a Map);

    impl Restless<'_> {
        fn touch(&self, at: u64) {
            let seen = load_cell(self.0, at).expect("a cell");
            assert!(self.0.replace_cell(at, seen, seen.word).expect("a cell"));
        }
    }

    impl UndoRecords for Restless<'_> {
        fn stand(&self) -> Result<bool, Fault> {
            self.touch(A);
            Ok(true)
        }

        fn adjustment(&self, _: u32) -> Result<Option<u64>, Fault> {
            self.touch(B);
            Ok(Some(B))
        }

        fn operator(&self, _: u32) -> Result<u32, Fault> {
            Ok(0)
        }
    }

    #[test]
    fn a_semaphore_that_a_peer_keeps_changing_is_an_error_and_no_endless_loop() {
        let map = Map::anonymous(4096);
        let semaphore = || Semaphore { map: &map, at: A, array: C, records: Restless(&map) };
        let stands = || semaphore().records.stand();
        let restless = |done: Result<_, Fault>| matches!(done, Err(Fault::Corrupt { .. }));
        assert!(restless(semaphore().close().map(drop)));
        assert!(restless(semaphore().operate(1, 9, 7, stands).map(drop)));
        assert!(restless(semaphore().operate_undoable(1, 9, 1, B, stands).map(drop)));
        assert!(restless(semaphore().close_adjustment(1, B).map(drop)));
        let shown = SemWord::of_undoable(1, 1).pack();
        let seen = load_cell(&map, A).expect("a cell");
        assert!(map.replace_cell(A, seen, shown).expect("a cell"));
        assert!(restless(semaphore().forget(1)));
    }
}
