//! Prepared undo: whether it counts, and closing the adjustment that it is in.

use vshmem_wire::{Adjustment, Cell, Place, RawCell, SemWord};

use super::single::{MOST_TURNS, Semaphore, UndoRecords, shows};
use crate::cell::load_cell;
use crate::crash::crash_point;
use crate::fault::Fault;

impl<R: UndoRecords> Semaphore<'_, R> {
    /// Makes the prepared undo count that the semaphore, which was `seen` with the UNDO flag, may
    /// show. Nothing happens if it is no longer that.
    ///
    /// # Errors
    /// When the pool is corrupt.
    #[cold]
    pub fn commit_prepared(&self, seen: Cell) -> Result<(), Fault> {
        let record = SemWord::unpack(seen.word).operator;
        let Some(at) = self.records.adjustment(record)? else {
            return Ok(());
        };
        let old = load_cell(self.map, at)?;
        let adjustment = Adjustment::unpack(old.word);
        // A record is not given up before no semaphore names it: so if this one still does, then
        // what was read is the record's.
        if adjustment.is_prepared
            && shows(seen, record, adjustment)
            && load_cell(self.map, self.at)? == seen
        {
            let kept = Adjustment::of(adjustment.kept(), adjustment.closed);
            self.map.replace_cell(at, old, kept.pack())?;
            crash_point("semop-commit-undo", "undo-committed");
        }
        Ok(())
    }

    /// Replaces the word, if the semaphore is still `seen`, by an equal one that names its
    /// operator, and closes the fast path if `slow`. Says what stands there now, if it did.
    ///
    /// That the set still stands was asked after `seen` was read.
    pub(super) fn restate(&self, seen: Cell, slow: bool) -> Result<Option<Cell>, Fault> {
        let stands = self.rewrite(seen, slow)?;
        if stands.is_some() {
            self.records.count_other_writes(1);
        }
        Ok(stands)
    }

    /// As [`Self::restate`]; the caller counts the write.
    pub(super) fn rewrite(&self, seen: Cell, slow: bool) -> Result<Option<Cell>, Fault> {
        let word = SemWord::unpack(seen.word);
        let (mut value, mut operator) = (word.value, word.operator);
        if word.undo {
            self.commit_prepared(seen)?;
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

    /// Decides whether the prepared undo of an adjustment counts that was `old` before the
    /// semaphore was `seen`, and writes that down. Returns what then stands there, or nothing: then
    /// it has to be looked at again.
    pub(super) fn decide(
        &self,
        record: u32,
        adjustment_at: Place<RawCell>,
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

    /// Closes the fast path to an adjustment, and returns what then stands there. No prepared undo
    /// is left in it.
    ///
    /// # Errors
    /// When the pool is corrupt, or the record has been given up.
    pub fn close_adjustment(
        &self,
        record: u32,
        adjustment_at: Place<RawCell>,
    ) -> Result<Cell, Fault> {
        for _ in 0..MOST_TURNS {
            // READ ORDER: the adjustment, the semaphore, and then whether they stand.
            let old = load_cell(self.map, adjustment_at)?;
            let seen = load_cell(self.map, self.at)?;
            let adjustment = Adjustment::unpack(old.word);
            if adjustment.closed && !adjustment.is_prepared {
                return Ok(old);
            }
            self.require(self.records.adjustment(record)? == Some(adjustment_at))?;
            if adjustment.is_prepared {
                self.decide(record, adjustment_at, old, seen)?;
                continue;
            }
            let closed = Adjustment::of(adjustment.total, true).pack();
            if self.map.replace_cell(adjustment_at, old, closed)? {
                crash_point("semop-undo", "closed");
                return Ok(old.successor(closed));
            }
        }
        Err(Fault::corrupt(adjustment_at, "an adjustment that never stays the same"))
    }

    /// What has gone while its lock was held has gone because the lock was lost, or a peer has
    /// written nonsense. The lock tells which.
    pub(super) fn require(&self, is_current: bool) -> Result<(), Fault> {
        if is_current { Ok(()) } else { Err(Fault::corrupt(self.at, "a semaphore that has gone")) }
    }
}
