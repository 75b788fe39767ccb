//! One semaphore, what is known of its undo records, and operations on it without the lock.

use vshmem_mem::Map;
use vshmem_wire::{Adjustment, Cell, Place, RawCell, SemWord};

use crate::crash::crash_point;
use crate::fault::Fault;

/// Retries after which a word that keeps changing is treated as corrupted by a peer.
pub(super) const MOST_TURNS: u32 = 1 << 20;

/// Finds what an undo record says.
pub trait UndoRecords {
    /// Whether the semaphore still lies where it was found: its set is not taken apart yet.
    ///
    /// # Errors
    /// When the set cannot be read.
    fn check_current(&self) -> Result<bool, Fault>;

    /// The record's adjustment of the semaphore. `None` when there is no such record of
    /// this set.
    ///
    /// # Errors
    /// When the record cannot be read.
    fn adjustment(&self, record: u32) -> Result<Option<Place<RawCell>>, Fault>;

    /// The record's owner as a `ProcessRef`; 0 when there is none.
    ///
    /// # Errors
    /// When the record cannot be read.
    fn operator(&self, record: u32) -> Result<u32, Fault>;

    /// Counts `writes` of semaphores of the set that are no operations: their tags count both.
    fn count_other_writes(&self, writes: u64) {
        let _ = writes;
    }
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
    /// The fast path is closed, or not for this operation.
    Closed,
}

/// One semaphore, by its cell.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore<'a, R> {
    /// The pool.
    pub map: &'a Map,
    /// Its cell.
    pub at: Place<RawCell>,
    /// The set's last array of operations.
    pub array: Place<RawCell>,
    /// The set's undo records.
    pub records: R,
}

impl<R: UndoRecords> Semaphore<'_, R> {
    /// Adds `change`, or for 0 waits for zero, on behalf of `process_ref`. `is_current` tells,
    /// after the word was read, whether the set is still there.
    ///
    /// # Errors
    /// When the pool is corrupt.
    #[inline(always)]
    pub fn operate(
        &self,
        change: i16,
        highest: u32,
        process_ref: u32,
        is_current: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        self.replace_value(process_ref, is_current, move |value| sum(value, change, highest))
    }

    /// Replaces the value by what `next` makes of it, on behalf of `process_ref`. `is_current` as
    /// above.
    #[inline(always)]
    pub(super) fn replace_value(
        &self,
        process_ref: u32,
        is_current: impl Fn() -> Result<bool, Fault>,
        next: impl Fn(u32) -> Result<u32, Operated> + Copy,
    ) -> Result<Operated, Fault> {
        let cell = self.map.cell_ref(self.at)?;
        for _ in 0..MOST_TURNS {
            let seen = cell.load_to_replace();
            let word = SemWord::unpack(seen.word);
            if word.slow || !is_current()? {
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
                self.commit_prepared(seen)?;
            }
            let next = SemWord::of(value, process_ref, false);
            // Barrier HAND-OVER: pairs with the acquire of the thread that reads the semaphore
            // next.
            if cell.replace(seen, next.pack()) {
                crash_point("semop-fast", "done");
                return Ok(Operated::Done);
            }
        }
        Err(self.restless())
    }

    /// Adds `change`, which is not 0, and takes it from the adjustment at `adjustment_at` of the
    /// undo record `record`, which is the caller's. `is_current` tells, after both were read,
    /// whether the set is still there and the record still the caller's.
    ///
    /// # Errors
    /// When the pool is corrupt.
    #[inline(always)]
    pub fn operate_undoable(
        &self,
        change: i16,
        highest: u32,
        record: u32,
        adjustment_at: Place<RawCell>,
        is_current: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        // Found before the swaps: whatever is looked up between the two, the second waits for.
        let (adjusted, cell) = (self.map.cell_ref(adjustment_at)?, self.map.cell_ref(self.at)?);
        for _ in 0..MOST_TURNS {
            // READ ORDER: the adjustment, the semaphore, and then whether they stand.
            let old = adjusted.load_to_replace();
            let seen = cell.load_to_replace();
            let (adjustment, word) = (Adjustment::unpack(old.word), SemWord::unpack(seen.word));
            if adjustment.closed || word.slow || !is_current()? {
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
            let total = if !adjustment.is_prepared {
                adjustment.total
            } else if shows(seen, record, adjustment) {
                adjustment.kept()
            } else {
                self.decide(record, adjustment_at, old, seen)?;
                continue;
            };
            let Some(prepared) = change.checked_neg().filter(|p| total.checked_add(*p).is_some())
            else {
                return Ok(Operated::Closed);
            };
            if word.undo && word.operator != record {
                self.commit_prepared(seen)?;
            }
            let next = seen.successor(SemWord::of_undoable(value, record).pack());
            let is_prepared = Adjustment::preparing(total, prepared, next.tag);
            if !adjusted.replace(old, is_prepared.pack()) {
                continue;
            }
            crash_point("semop-undo", "prepared");
            if cell.replace(seen, next.word) {
                crash_point("semop-undo", "done");
                return Ok(Operated::Done);
            }
        }
        Err(self.restless())
    }

    /// For an operation that finds a tentative word: an answer if `next` refuses what it amounts
    /// to; otherwise the word is made a plain one, to be looked at again. That the set still stands
    /// was asked after `seen` was read.
    #[cold]
    #[inline(never)]
    pub(super) fn finish(
        &self,
        seen: Cell,
        next: impl Fn(u32) -> Result<u32, Operated>,
    ) -> Result<Option<Operated>, Fault> {
        if let Some((value, _)) = self.amount(seen)? {
            if let Err(answer) = next(value) {
                return Ok(Some(answer));
            }
            self.restate(seen, false)?;
        }
        Ok(None)
    }
}

impl<R> Semaphore<'_, R> {
    pub(super) fn restless(&self) -> Fault {
        Fault::corrupt(self.at, "a semaphore that never stays the same")
    }
}

/// The value after an operation.
#[inline]
pub(super) fn sum(before: u32, change: i16, highest: u32) -> Result<u32, Operated> {
    let value = before as i32 + i32::from(change);
    if value < 0 || (change == 0 && value != 0) {
        return Err(Operated::Blocks);
    }
    if value > highest as i32 {
        return Err(Operated::TooHigh);
    }
    Ok(value as u32)
}

/// Whether a semaphore shows the operation that the prepared undo of an adjustment of `record` is
/// for.
#[inline]
pub(super) fn shows(seen: Cell, record: u32, adjustment: Adjustment) -> bool {
    let word = SemWord::unpack(seen.word);
    word.undo && word.operator == record && Adjustment::mark_of(seen.tag) == adjustment.mark
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cell::load_cell;
    use vshmem_mem::Map;

    const A: Place<RawCell> = Place::at(0);
    const B: Place<RawCell> = Place::at(16);
    const C: Place<RawCell> = Place::at(32);

    /// Records of a pool in which a peer writes each cell again whenever it has been looked at.
    #[derive(Debug)]
    struct Restless<'a>(&'a Map);

    impl Restless<'_> {
        fn touch(&self, at: Place<RawCell>) {
            let seen = load_cell(self.0, at).expect("a cell");
            assert!(self.0.replace_cell(at, seen, seen.word).expect("a cell"));
        }
    }

    impl UndoRecords for Restless<'_> {
        fn check_current(&self) -> Result<bool, Fault> {
            self.touch(A);
            Ok(true)
        }

        fn adjustment(&self, _: u32) -> Result<Option<Place<RawCell>>, Fault> {
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
        let is_current = || semaphore().records.check_current();
        let restless = |done: Result<_, Fault>| matches!(done, Err(Fault::Corrupt { .. }));
        assert!(restless(semaphore().close().map(drop)));
        assert!(restless(semaphore().operate(1, 9, 7, is_current).map(drop)));
        assert!(restless(semaphore().operate_undoable(1, 9, 1, B, is_current).map(drop)));
        assert!(restless(semaphore().close_adjustment(1, B).map(drop)));
        let shown = SemWord::of_undoable(1, 1).pack();
        let seen = load_cell(&map, A).expect("a cell");
        assert!(map.replace_cell(A, seen, shown).expect("a cell"));
        assert!(restless(semaphore().forget(1)));
    }
}
