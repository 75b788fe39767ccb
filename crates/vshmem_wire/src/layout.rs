//! Where the tables of a pool lie.

use crate::{
    AttachSlot, ClientSlot, DomainSlot, ExtentSlot, FutexBucket, LockRow, MsgSlot, PAGE_BYTES,
    Place, RawCell, Registry, SLAB_BYTES, SemSlot, ShmSlot, SlabMeta, ThreadSlot, UndoSlot,
    UnitMeta,
};

/// The places of `count` structures of one type, one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct Area<T> {
    first: Place<T>,
    /// How many there are.
    pub count: u64,
}

impl<T> Area<T> {
    /// An area that begins at byte `offset` of the pool: for a layout, and for tests.
    #[must_use]
    pub const fn new(offset: u64, count: u64) -> Self {
        Self { first: Place::at(offset), count }
    }

    /// Structure `index`, or `None` past the end.
    #[inline]
    #[must_use]
    pub const fn at(&self, index: u32) -> Option<Place<T>> {
        if (index as u64) < self.count { Some(self.first.nth(index as u64)) } else { None }
    }

    /// As [`Area::at`], for an index that was read in the pool.
    ///
    /// # Errors
    /// When there is no such structure: a peer has written the index.
    #[inline]
    pub fn row(&self, index: u32) -> Result<Place<T>, NoRow> {
        self.at(index).ok_or(NoRow { table: self.first.offset() })
    }

    /// The first structure: where all of them begin.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> Place<T> {
        self.first
    }

    /// Offset of its first byte.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.first.offset()
    }

    /// Which of the structures the byte at `offset` belongs to; `None` outside the area.
    #[must_use]
    pub const fn index_of(&self, offset: u64) -> Option<u32> {
        if offset < self.offset() || offset >= self.end() {
            return None;
        }
        Some(((offset - self.offset()) / size_of::<T>() as u64) as u32)
    }

    /// Offset of the first byte behind the area.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.first.nth(self.count).offset()
    }
}

/// An index past the end of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRow {
    /// Offset of the table.
    pub table: u64,
}

/// A data page, as an area has them.
pub type Page = [u8; PAGE_BYTES as usize];
/// A slab of the heap, as an area has them.
pub type Slab = [u8; SLAB_BYTES as usize];

/// Where everything lies.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The registry's words.
    pub registry: Place<Registry>,
    /// Domain table.
    pub domains: Area<DomainSlot>,
    /// Client table.
    pub clients: Area<ClientSlot>,
    /// Thread slots: intent record and wait record of one thread each.
    pub threads: Area<ThreadSlot>,
    /// Segment table.
    pub shm: Area<ShmSlot>,
    /// Semaphore set table.
    pub sem: Area<SemSlot>,
    /// Queue table.
    pub msg: Area<MsgSlot>,
    /// Key index: [`crate::KEY_BUCKETS`] buckets per object slot, per kind.
    pub keys: [Area<RawCell>; 3],
    /// Attach records.
    pub attaches: Area<AttachSlot>,
    /// Undo records.
    pub undos: Area<UndoSlot>,
    /// Wait queues by address.
    pub futexes: Area<FutexBucket>,
    /// The lock table: claims on file locks of objects, and who wants them.
    pub locks: Area<LockRow>,
    /// One per slab of the heap.
    pub slab_meta: Area<SlabMeta>,
    /// One per unit of the heap.
    pub unit_meta: Area<UnitMeta>,
    /// Extents of data pages.
    pub extents: Area<ExtentSlot>,
    /// Which data pages may hold old data: a bit each.
    pub dirty: Area<RawCell>,
    /// The heap, in slabs.
    pub heap: Area<Slab>,
    /// Data pages of segments.
    pub data: Area<Page>,
    /// Bytes of the whole pool.
    pub total_bytes: u64,
}
