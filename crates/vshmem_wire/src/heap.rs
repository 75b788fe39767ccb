//! Bookkeeping of the heap: small things.

use crate::RawCell;

/// Bytes of a slab: the heap is handed out to size classes in slabs.
pub const SLAB_BYTES: u64 = 64 << 10;
/// Bytes of a unit: the smallest chunk.
pub const UNIT_BYTES: u64 = 128;
/// Slabs at most: a word of a queue's ring has 26 bits for a unit
/// (`docs/internals/wire-format.md`).
pub const MAX_SLABS: u64 = (1 << 17) - 1;
/// Units per chunk, class by class. Most hold a message of a power of two, with its header. The
/// last class is that of long rings alone, [`RING_CLASS`].
pub const CHUNK_CLASSES: [u32; 9] = [1, 2, 4, 9, 17, 33, 65, 128, 8];
/// Place of the class of long rings: they stay for ever, and so have slabs of their own.
pub const RING_CLASS: usize = CHUNK_CLASSES.len() - 1;
/// One slab of so many may serve long rings.
pub const SLABS_PER_RING_SLAB: u32 = 8;

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
    /// 0 free; 1 in an object; else the id of the client that owns it.
    pub owner: RawCell,
    /// Next message of a queue, unit plus one.
    pub next: RawCell,
}

const _: () = assert!(
    CHUNK_CLASSES[RING_CLASS] as u64 * UNIT_BYTES == crate::LONG_RING_BYTES,
    "a long ring fills its chunk"
);
const _: () = assert!(size_of::<SlabMeta>() == 32, "a slab's bookkeeping is two cells");
const _: () = assert!(size_of::<UnitMeta>() == 32, "a unit's bookkeeping is two cells");
const _: () = assert!(SLAB_BYTES.is_multiple_of(UNIT_BYTES), "a slab is made of units");
