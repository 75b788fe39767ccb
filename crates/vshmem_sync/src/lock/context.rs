//! What a change needs to know of the pool and of its thread.

use vshmem_mem::Map;
use vshmem_wire::{Area, Place, RawCell, ThreadSlot};

use crate::fault::Fault;
use crate::thread_slot::SlotCache;

/// What a step on shared state needs to know: the pool, and the slot that it works from.
#[derive(Debug, Clone, Copy)]
pub struct LockContext<'a> {
    /// The pool.
    pub map: &'a Map,
    /// The thread table.
    pub threads: Area<ThreadSlot>,
    /// Words that an intent record may name: everything behind the superblock up to here.
    pub words_end: u64,
    /// The thread slot in use.
    pub slot: u32,
    /// The process's slot guards, to recognise a lock that this very thread holds further out.
    pub slot_cache: &'a SlotCache,
}

impl LockContext<'_> {
    /// Refuses a place where no lock can lie: what is in front of the tables (the superblock
    /// has no locks), behind them, or not aligned.
    ///
    /// # Errors
    /// When it is such a one.
    #[inline]
    pub(crate) fn check_lock(&self, lock: Place<RawCell>) -> Result<(), Fault> {
        let offset = lock.offset();
        let inside = (vshmem_wire::PAGE_BYTES..self.words_end).contains(&offset);
        if inside && offset.is_multiple_of(vshmem_wire::CELL_BYTES) {
            return Ok(());
        }
        Err(Fault::corrupt(offset, "a lock where none can be"))
    }

    /// Where a thread slot is.
    ///
    /// # Errors
    /// When there is no such slot.
    #[inline]
    pub fn slot_at(&self, slot: u32) -> Result<Place<ThreadSlot>, Fault> {
        self.threads
            .at(slot)
            .ok_or_else(|| Fault::corrupt(self.threads.first(), "no such thread slot"))
    }
}
