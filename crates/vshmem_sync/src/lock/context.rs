//! What a change needs to know of the pool and of its thread.

use vshmem_mem::Map;
use vshmem_wire::{Area, ThreadSlot};

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
