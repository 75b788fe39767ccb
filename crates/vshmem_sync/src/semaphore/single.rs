//! One semaphore, and what is known of its undo records.

use vshmem_mem::Map;
use vshmem_wire::{Adjustment, Cell, Place, RawCell, SemWord};

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

/// One semaphore, by the offset of its cell.
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

impl<R> Semaphore<'_, R> {
    pub(super) fn restless(&self) -> Fault {
        Fault::corrupt(self.at, "a semaphore that never stays the same")
    }
}

/// Whether a semaphore shows the operation that the prepared undo of an adjustment of `record` is
/// for.
#[inline]
pub(super) fn shows(seen: Cell, record: u32, adjustment: Adjustment) -> bool {
    let word = SemWord::unpack(seen.word);
    word.undo && word.operator == record && Adjustment::mark_of(seen.tag) == adjustment.mark
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
