//! The second page of a pool: words of the registry as a whole.

use crate::RawCell;

/// Size classes of free extents: bin `b` holds extents of `2^b ..= 2^(b+1)-1` pages.
pub const PAGE_BINS: usize = 40;

/// The registry: words of the pool as a whole, in the second page, most of them under the registry
/// lock.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Registry {
    /// The registry lock.
    pub lock: RawCell,
    /// Free object slots per kind: first of the queue.
    pub free_head: [RawCell; 3],
    /// Free object slots per kind: last of the queue.
    pub free_tail: [RawCell; 3],
    /// Live objects per kind.
    pub in_use: [RawCell; 3],
    /// Highest object slot ever used per kind, plus one: what `*_INFO` walks to.
    pub high_water: [RawCell; 3],
    /// Where to look for a free attach record first.
    pub attach_hint: RawCell,
    /// Pages in live segments.
    pub pages_used: RawCell,
    /// Highest client slot ever used, plus one.
    pub clients_high: RawCell,
    /// Counts deaths processed; waiters that see it change look again.
    pub deaths: RawCell,
    /// First free extent of each size class.
    pub page_bins: [RawCell; PAGE_BINS],
    /// Highest extent slot ever used, plus one.
    pub extents_high: RawCell,
    /// First unused extent slot below that, plus one.
    pub extents_unused: RawCell,
    /// The extent that is being cleaned, plus one.
    pub cleaning: RawCell,
    /// Id of the client that cleans it.
    pub cleaner: RawCell,
    /// Free client slots: the one that became free first, plus one.
    pub free_clients: RawCell,
    /// The one that became free last, plus one.
    pub free_clients_last: RawCell,
    /// 1 while some client may have announced its end: a call that asks about objects looks for
    /// those that are gone by now.
    pub leavers: RawCell,
    /// No cell that ever lay in the heap and does no longer had a higher tag: cells that are laid
    /// there start above it. Raised outside any lock.
    pub tag_floor: RawCell,
    /// 1 once a thread has slept by address: until then the end of a client wakes none.
    pub futexes_used: RawCell,
    /// The lock of the lock table.
    pub lock_table: RawCell,
    /// Highest row of the lock table ever used, plus one.
    pub lock_rows: RawCell,
    /// Wants in the lock table, those that are granted included.
    pub lock_wants: RawCell,
}

const _: () = assert!(size_of::<Registry>() <= 4096, "the registry's words are one page");
