//! What a tentative word amounts to, which an array of operations has left.

use vshmem_wire::{ArrayState, ArrayWord, Cell, SemWord};

use super::single::{Semaphore, UndoRecords};
use crate::cell::load_cell;
use crate::crash::crash_point;
use crate::fault::Fault;

impl<R: UndoRecords> Semaphore<'_, R> {
    /// What a tentative word amounts to, and the array's word that is still open, if it is. `None`
    /// when the semaphore is no longer `seen`.
    pub(super) fn amount(&self, seen: Cell) -> Result<Option<(u32, Option<Cell>)>, Fault> {
        let word = SemWord::unpack(seen.word);
        let array = load_cell(self.map, self.array)?;
        if load_cell(self.map, self.at)? != seen {
            return Ok(None);
        }
        let known = ArrayWord::unpack(array.word);
        let Some(value) = known.value_of(word) else {
            return Err(Fault::corrupt(self.at, "a semaphore of an array that no thread knows"));
        };
        let is_open = known.state == ArrayState::Open && known.mark == word.mark;
        Ok(Some((value, is_open.then_some(array))))
    }

    /// What a tentative word amounts to for good: an array that is open is cancelled. `None` when
    /// the semaphore is no longer `seen`.
    #[cold]
    #[inline(never)]
    pub(super) fn decided(&self, seen: Cell) -> Result<Option<u32>, Fault> {
        let Some((value, open)) = self.amount(seen)? else { return Ok(None) };
        if let Some(open) = open {
            let off = ArrayWord { state: ArrayState::Cancelled, ..ArrayWord::unpack(open.word) };
            if !self.map.replace_cell(self.array, open, off.pack())? {
                return Ok(None);
            }
            crash_point("semop-array", "called-off-by-another");
        }
        Ok(Some(value))
    }
}
