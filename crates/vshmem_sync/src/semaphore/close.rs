//! Reading a semaphore; closing the fast path to it, and to an adjustment, and whether the undo
//! that is prepared there counts.

use vshmem_wire::{Adjustment, Cell, Place, RawCell, SemWord};

use super::single::{MOST_TURNS, Semaphore, UndoRecords, shows};
use crate::cell::{load_cell, load_word};
use crate::crash::crash_point;
use crate::fault::Fault;

impl<R: UndoRecords> Semaphore<'_, R> {
    /// Whether the fast path is closed.
    ///
    /// # Errors
    /// When the word is outside the pool.
    pub fn is_closed(&self) -> Result<bool, Fault> {
        Ok(SemWord::unpack(load_word(self.map, self.at)?).slow)
    }

    /// A number that differs from an earlier one if the value has changed in between.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline]
    pub fn peek(&self) -> Result<u64, Fault> {
        let word = load_word(self.map, self.at)?;
        let is_tentative = SemWord::unpack(word).tentative;
        // An array that happens changes its own word and not the semaphore's.
        let array = if is_tentative { load_word(self.map, self.array)? } else { 0 };
        Ok(word ^ array.rotate_left(32))
    }

    /// The word, and who operated last as a `ProcessRef`.
    ///
    /// # Errors
    /// When the pool is corrupt.
    pub fn read(&self) -> Result<(SemWord, u32), Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            let word = SemWord::unpack(seen.word);
            if word.tentative {
                // A thread that had operated before an array that was cancelled is not known any
                // more.
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

    /// Closes the fast path to the semaphore, and returns what then stands there.
    ///
    /// # Errors
    /// When the pool is corrupt, or the set has gone.
    pub fn close(&self) -> Result<Cell, Fault> {
        let (closed, has_written) = self.close_uncounted()?;
        if has_written {
            self.records.count_other_writes(1);
        }
        Ok(closed)
    }

    /// As [`Self::close`]; says whether it has written the word, which the caller counts.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub fn close_uncounted(&self) -> Result<(Cell, bool), Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            if SemWord::unpack(seen.word).slow {
                return Ok((seen, false));
            }
            self.require(self.records.check_current()?)?;
            if let Some(closed) = self.rewrite(seen, true)? {
                return Ok((closed, true));
            }
        }
        Err(self.restless())
    }

    /// What has gone while its lock was held has gone because the lock was lost, or a peer has
    /// written nonsense. The lock tells which.
    pub(super) fn require(&self, is_current: bool) -> Result<(), Fault> {
        if is_current { Ok(()) } else { Err(Fault::corrupt(self.at, "a semaphore that has gone")) }
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

    /// Makes the word name no longer an undo record that is about to go, nor anything that its
    /// owner could still do without the lock: its adjustment is closed.
    ///
    /// # Errors
    /// When the pool is corrupt, or the set has gone.
    pub fn forget(&self, record: u32) -> Result<(), Fault> {
        for _ in 0..MOST_TURNS {
            let seen = load_cell(self.map, self.at)?;
            let word = SemWord::unpack(seen.word);
            if !word.undo || word.operator != record {
                return Ok(());
            }
            self.require(self.records.check_current()?)?;
            if self.restate(seen, false)?.is_some() {
                return Ok(());
            }
        }
        Err(self.restless())
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
}
