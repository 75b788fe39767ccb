//! A chunk of the heap, by its first unit: where it lies, and its cells.

use vshmem_mem::Map;
use vshmem_sync::{Fault, load_value};
use vshmem_wire::{
    CHUNK_CLASSES, Layout, Place, RawCell, SLAB_BYTES, SlabMeta, UNIT_BYTES, UnitMeta, field,
};

/// Units per slab.
pub(crate) const SLAB_UNITS: u32 = (SLAB_BYTES / UNIT_BYTES) as u32;

/// Owner of a chunk that is part of an object. Others carry the id of a client.
pub(crate) const IN_OBJECT: u64 = 1;

/// Slabs of one run at most: what one intent record can take.
pub(crate) const LONGEST_RUN: u32 = 40;

/// A chunk, by its first unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk(pub u32);

impl Chunk {
    /// Byte offset of the chunk.
    #[inline]
    pub fn offset(self, layout: &Layout) -> Result<u64, Fault> {
        if u64::from(self.0) >= layout.unit_meta.count {
            return Err(Fault::corrupt(layout.unit_meta.offset(), "no such unit"));
        }
        Ok(layout.heap.offset() + u64::from(self.0) * UNIT_BYTES)
    }

    /// What the chunk holds, which its user knows.
    #[inline]
    pub fn place<T>(self, layout: &Layout) -> Result<Place<T>, Fault> {
        self.offset(layout).map(Place::at)
    }

    fn meta(self, layout: &Layout) -> Result<Place<UnitMeta>, Fault> {
        Ok(layout.unit_meta.row(self.0)?)
    }

    /// The owner cell.
    pub fn owner(self, layout: &Layout) -> Result<Place<RawCell>, Fault> {
        Ok(field!(self.meta(layout)?, UnitMeta, owner))
    }

    /// The link cell.
    pub fn next(self, layout: &Layout) -> Result<Place<RawCell>, Fault> {
        Ok(field!(self.meta(layout)?, UnitMeta, next))
    }
}

/// Bytes of a chunk of a slab that serves a class; none of any other.
#[inline]
pub(crate) fn bytes_of(map: &Map, layout: &Layout, chunk: Chunk) -> Result<u64, Fault> {
    let slab = layout.slab_meta.row(chunk.0 / SLAB_UNITS)?;
    let class = load_value(map, field!(slab, SlabMeta, class))?;
    let units = class.checked_sub(1).and_then(|class| CHUNK_CLASSES.get(class as usize));
    Ok(units.map_or(0, |units| u64::from(*units) * UNIT_BYTES))
}
