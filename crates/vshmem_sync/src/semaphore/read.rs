//! Reading a semaphore, and closing its fast path.

use vshmem_wire::{Cell, SemWord};

use super::single::{MOST_TURNS, Semaphore, UndoRecords};
use crate::cell::{load_cell, load_word};
use crate::fault::Fault;

impl<R: UndoRecords> Semaphore<'_, R> {
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

    /// Whether the fast path is closed.
    ///
    /// # Errors
    /// When the word is outside the pool.
    pub fn is_closed(&self) -> Result<bool, Fault> {
        Ok(SemWord::unpack(load_word(self.map, self.at)?).slow)
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
}
