//! Arrays of operations on a few semaphores of a set, without its lock.
//!
//! An array happens at once or not at all, and several semaphores are several cells. So each of
//! them gets a *tentative* word first: it holds the value before and the value after, and which of
//! them counts is decided by one cell of the set, the array's word. Turning that from *open* to
//! *done* is the commit. The tentative words stay as they are: the thread that operates next
//! replaces them, as it would replace any word.
//!
//! 1. Read the array's word, and then the semaphores. What they would become is worked out; if it
//!    cannot be, the lock decides.
//! 2. *Open*: swap the array's word for one with the next mark and the numbers of the semaphores.
//! 3. Swap each semaphore for a tentative word with that mark.
//! 4. *Done*: swap the array's word.
//!
//! That is two swaps more than there are semaphores. A thread that is killed or stopped leaves an
//! open array behind: nothing has happened, and the next thread that needs one of its semaphores
//! *cancels* it, by a swap of the array's word, and continues. Its owner starts again, or leaves it
//! to the lock after some attempts, which closes the semaphores first.
//!
//! # Whom a mark names
//! An array's word tells about its own array and about the one before, and marks have two bits.
//! That is enough because no semaphore names an older one:
//!
//! * Before an array is opened over one that was done, each semaphore of that one has been
//!   replaced, or is about to be by the new array, and names the one that was done and no older
//!   one. All swaps of an array that is done came before its commit: none comes late.
//! * An array that was cancelled may still be swapping. So before the next one is opened, each of
//!   its semaphores is written once more, which raises their tags and makes what is late fail; then
//!   the array's word is *decided*, and no semaphore names any array.
//! * A thread that concludes something from a tentative word reads the semaphore, then the array's
//!   word, and then the semaphore again, or it ends in a swap of the semaphore. So the semaphore
//!   was tentative when the array's word was read.
//!
//! Once the array's word says that an array was done or cancelled, that does not change. So a
//! conclusion from it holds until the semaphore is swapped.
//!
//! # Removed sets
//! As with single operations, a thread asks whether the set still exists after it has read the
//! cells. A thread that takes a set apart closes all its semaphores, which raises their tags. If a
//! delayed thread opens an array afterwards, all its swaps of semaphores fail. The next thread
//! finds that array open, in the set that has the slot by then, and cancels it.

use arrayvec::ArrayVec;
use vshmem_mem::{Map, spin_hint};
use vshmem_wire::{ArrayState, ArrayWord, Cell, Place, RawCell, SemWord};

use super::single::{Operated, Semaphore, UndoRecords, sum};
use crate::cell::load_cell;
use crate::crash::crash_point;
use crate::fault::Fault;

/// Attempts before it is left to the lock.
const ATTEMPTS: u32 = 3;
/// Looks at an array that another thread has opened, before it is cancelled.
const SPINS_BEFORE_CANCEL: u32 = if cfg!(loom) { 0 } else { vshmem_mem::tuning::lock::POLLS };
/// Looks at a semaphore that others keep changing.
const MOST_LOOKS: u32 = 1 << 10;

/// The semaphores of a set, as far as arrays of operations need them.
#[derive(Debug, Clone, Copy)]
pub struct SemaphoreArray<'a, F> {
    /// The pool.
    pub map: &'a Map,
    /// The array's word.
    pub at: Place<RawCell>,
    /// Finds a semaphore by its number. An error when the set has none of that number.
    pub find: F,
}

/// One semaphore of an array.
#[derive(Debug, Clone, Copy)]
struct Part<R> {
    number: u16,
    semaphore: R,
    /// Its cell when it was read, and what that amounts to.
    seen: Cell,
    before: u32,
    /// Its value after the operations so far.
    value: u32,
}

type Parts<'a, R> = ArrayVec<Part<Semaphore<'a, R>>, { ArrayWord::MOST }>;

/// What came of an attempt.
enum Attempt {
    Over(Operated),
    /// Another thread has come between.
    Again,
}

impl<'a, R: UndoRecords, F: Fn(u32) -> Result<Semaphore<'a, R>, Fault>> SemaphoreArray<'a, F> {
    /// Does all `operations`, of a semaphore's number and what to add to it, or none, on behalf of
    /// `process_ref`. `is_current` as for [`Semaphore::operate`]. [`Operated::Closed`] when it
    /// takes the lock to say how it ends.
    ///
    /// # Errors
    /// When the pool is corrupt.
    #[inline]
    pub fn operate(
        &self,
        operations: &[(u16, i16)],
        highest: u32,
        process_ref: u32,
        is_current: impl Fn() -> Result<bool, Fault>,
    ) -> Result<Operated, Fault> {
        let Some(&(first, _)) = operations.first() else { return Ok(Operated::Closed) };
        if operations.iter().all(|&(number, _)| number == first) {
            // One word, and so one swap.
            let all = move |value| {
                let add = move |value, &(_, change): &(u16, i16)| sum(value, change, highest);
                operations.iter().try_fold(value, add).map_err(|_| Operated::Closed)
            };
            return (self.find)(first.into())?.replace_value(process_ref, is_current, all);
        }
        for _ in 0..ATTEMPTS {
            if let Attempt::Over(operated) =
                self.attempt(operations, highest, process_ref, &is_current)?
            {
                return Ok(operated);
            }
        }
        Ok(Operated::Closed)
    }

    #[inline]
    fn attempt(
        &self,
        operations: &[(u16, i16)],
        highest: u32,
        process_ref: u32,
        is_current: &impl Fn() -> Result<bool, Fault>,
    ) -> Result<Attempt, Fault> {
        let last = load_cell(self.map, self.at)?;
        let known = ArrayWord::unpack(last.word);
        if matches!(known.state, ArrayState::Open | ArrayState::Cancelled) {
            return self.clear_away(last, is_current);
        }
        let mut parts = Parts::new();
        for &(number, change) in operations {
            let known_part = parts.iter().position(|part| part.number == number);
            let nth = match known_part {
                Some(nth) => nth,
                None => {
                    let part = match self.read(number, known)? {
                        Ok(part) => part,
                        Err(instead) => return Ok(instead),
                    };
                    if parts.try_push(part).is_err() {
                        return Ok(Attempt::Over(Operated::Closed));
                    }
                    parts.len() - 1
                }
            };
            let part = &mut parts[nth];
            match sum(part.value, change, highest) {
                Ok(value) => part.value = value,
                Err(_) => return Ok(Attempt::Over(Operated::Closed)),
            }
        }
        if !is_current()? {
            return Ok(Attempt::Over(Operated::Closed));
        }
        for part in parts.iter().filter(|part| SemWord::unpack(part.seen.word).undo) {
            part.semaphore.commit_prepared(part.seen)?;
        }
        if !self.leave(known, &parts, is_current)? {
            return Ok(Attempt::Again);
        }
        let mut numbers = [0; ArrayWord::MOST];
        for (to, part) in numbers.iter_mut().zip(&parts) {
            *to = part.number;
        }
        let open = ArrayWord {
            state: ArrayState::Open,
            former_done: known.state == ArrayState::Done,
            mark: known.mark.wrapping_add(1) & ArrayWord::MARKS,
            count: parts.len() as u32,
            numbers,
        };
        self.carry_through(last, open, &parts, process_ref)
    }

    /// Reads a semaphore, or says how the attempt ends instead.
    #[inline]
    fn read(
        &self,
        number: u16,
        known: ArrayWord,
    ) -> Result<Result<Part<Semaphore<'a, R>>, Attempt>, Fault> {
        if u32::from(number) >= ArrayWord::NUMBERS {
            return Ok(Err(Attempt::Over(Operated::Closed)));
        }
        let semaphore = (self.find)(number.into())?;
        let seen = load_cell(self.map, semaphore.at)?;
        let word = SemWord::unpack(seen.word);
        if word.slow {
            return Ok(Err(Attempt::Over(Operated::Closed)));
        }
        let value = if word.tentative { known.value_of(word) } else { Some(word.value) };
        // Otherwise it is of an array that was opened since.
        let part = value.map(|value| Part { number, semaphore, seen, before: value, value });
        Ok(part.ok_or(Attempt::Again))
    }

    /// Sees to it that no semaphore but those of `parts` names the array that is `known` and done.
    /// False when another thread has come between.
    #[inline]
    fn leave(
        &self,
        known: ArrayWord,
        parts: &Parts<'a, R>,
        is_current: &impl Fn() -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        if known.state != ArrayState::Done {
            return Ok(true);
        }
        let elsewhere = |number: &&u16| parts.iter().all(|part| part.number != **number);
        for &number in known.list().iter().filter(elsewhere) {
            if !self.make_plain(number, is_current, false)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens the array, swaps its semaphores and commits.
    #[inline]
    fn carry_through(
        &self,
        last: Cell,
        open: ArrayWord,
        parts: &Parts<'a, R>,
        process_ref: u32,
    ) -> Result<Attempt, Fault> {
        if !self.map.replace_cell(self.at, last, open.pack())? {
            return Ok(Attempt::Again);
        }
        let opened = last.successor(open.pack());
        crash_point("semop-array", "opened");
        for (nth, part) in parts.iter().enumerate() {
            let word = SemWord::tentatively(part.value, part.before, process_ref, open.mark);
            if !self.map.replace_cell(part.semaphore.at, part.seen, word.pack())? {
                let off = ArrayWord { state: ArrayState::Cancelled, ..open };
                self.map.replace_cell(self.at, opened, off.pack())?;
                crash_point("semop-array", "called-off");
                part.semaphore.records.count_other_writes(nth as u64);
                return Ok(Attempt::Again);
            }
            crash_point("semop-array", "tentative");
        }
        let done = ArrayWord { state: ArrayState::Done, ..open };
        if !self.map.replace_cell(self.at, opened, done.pack())? {
            if let Some(part) = parts.first() {
                part.semaphore.records.count_other_writes(parts.len() as u64);
            }
            return Ok(Attempt::Again);
        }
        crash_point("semop-array", "done");
        Ok(Attempt::Over(Operated::Done))
    }

    /// Clears an array away that is open, or was cancelled. Its owner has a moment to finish.
    #[cold]
    fn clear_away(
        &self,
        seen: Cell,
        is_current: &impl Fn() -> Result<bool, Fault>,
    ) -> Result<Attempt, Fault> {
        let known = ArrayWord::unpack(seen.word);
        if known.state == ArrayState::Open {
            for _ in 0..SPINS_BEFORE_CANCEL {
                spin_hint();
                if load_cell(self.map, self.at)? != seen {
                    return Ok(Attempt::Again);
                }
            }
            let off = ArrayWord { state: ArrayState::Cancelled, ..known };
            self.map.replace_cell(self.at, seen, off.pack())?;
            return Ok(Attempt::Again);
        }
        for &number in known.list() {
            if !self.make_plain(number, is_current, true)? {
                return Ok(Attempt::Over(Operated::Closed));
            }
        }
        let decided = ArrayWord { state: ArrayState::Decided, count: 0, ..known };
        self.map.replace_cell(self.at, seen, decided.pack())?;
        crash_point("semop-array", "decided");
        Ok(Attempt::Again)
    }

    /// Makes a semaphore's word one that names no array; with `anyhow` it is written in any case.
    /// False when the set has gone, or others keep changing it. A number that the set does not have
    /// is skipped: only a hostile member can have written it.
    #[cold]
    fn make_plain(
        &self,
        number: u16,
        is_current: &impl Fn() -> Result<bool, Fault>,
        anyhow: bool,
    ) -> Result<bool, Fault> {
        let Ok(semaphore) = (self.find)(number.into()) else { return Ok(true) };
        for _ in 0..MOST_LOOKS {
            let seen = load_cell(self.map, semaphore.at)?;
            let word = SemWord::unpack(seen.word);
            // No thread but the lock's holder writes one that is closed; and since it was, what is
            // late has failed already.
            if word.slow || !(anyhow || word.tentative) {
                return Ok(true);
            }
            // After the cell was read: what becomes of its memory later has another tag.
            if !is_current()? {
                return Ok(false);
            }
            if semaphore.restate(seen, false)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
