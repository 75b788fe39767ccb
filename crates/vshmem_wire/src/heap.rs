//! Bookkeeping of the heap (small things) and of the data pages (segments).

use crate::RawCell;

/// Bytes of a slab: the heap is handed out to size classes in slabs.
pub const SLAB_BYTES: u64 = 64 << 10;
/// Bytes of a unit: the smallest chunk.
pub const UNIT_BYTES: u64 = 128;
/// Units per chunk, class by class. The last one below a slab holds a message of 8 KiB.
pub const CHUNK_CLASSES: [u32; 8] = [1, 2, 4, 8, 16, 32, 65, 128];

/// One slab: which class it serves.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SlabMeta {
    /// 0 free; `class + 1` chunks of that class; [`SlabMeta::RUN`] first of a run of slabs;
    /// [`SlabMeta::TAIL`] inside a run.
    pub class: RawCell,
    /// Slabs of a run, in its first; and the client slot plus one while it is being set up.
    pub run: RawCell,
}

impl SlabMeta {
    /// First slab of a run for one large chunk.
    pub const RUN: u32 = 100;
    /// Further slab of a run.
    pub const TAIL: u32 = 101;
}

/// One unit of the heap; only that of a chunk's first unit is used.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UnitMeta {
    /// 0 free; 1 in an object; `client slot + 2` owned by a client.
    pub owner: RawCell,
    /// Next message of a queue, unit plus one.
    pub next: RawCell,
}

/// One data page; links are used in the first page of an extent only.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PageMeta {
    /// In the first and last page of an extent: its pages. Elsewhere stale.
    pub length: RawCell,
    /// In the first and last page of an extent: 0 interior or stale, 1 free, 2 used, and bit 8 for
    /// a free extent that may hold old data.
    pub state: RawCell,
    /// Next free extent of the bin, first page plus one.
    pub next: RawCell,
    /// Previous free extent of the bin, first page plus one.
    pub previous: RawCell,
}

impl PageMeta {
    /// Free extent.
    pub const FREE: u32 = 1;
    /// Extent of a segment.
    pub const USED: u32 = 2;
    /// A free extent whose pages may hold old data.
    pub const DIRTY: u32 = 1 << 8;
}

const _: () = assert!(size_of::<SlabMeta>() == 16, "a slab's bookkeeping is two cells");
const _: () = assert!(size_of::<UnitMeta>() == 16, "a unit's bookkeeping is two cells");
const _: () = assert!(size_of::<PageMeta>() == 32, "a page's bookkeeping is four cells");
const _: () = assert!(SLAB_BYTES.is_multiple_of(UNIT_BYTES), "a slab is made of units");
