//! Kinds, ids and slots.

use vshmem_wire::{
    ID_STRIDE, INDEX_BASE, Layout, MsgSlot, NoRow, ObjectHeader, Place, SemSlot, ShmSlot,
};

/// The three kinds of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Kind {
    /// Shared memory segments.
    Segment = 0,
    /// Semaphore sets.
    Semaphore = 1,
    /// Message queues.
    Queue = 2,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Segment, Self::Semaphore, Self::Queue];

    /// How many slots of this kind there are.
    #[inline]
    pub(crate) fn slots(self, layout: &Layout) -> u64 {
        match self {
            Self::Segment => layout.shm.count,
            Self::Semaphore => layout.sem.count,
            Self::Queue => layout.msg.count,
        }
    }

    /// Which slot of this kind the byte at `offset` belongs to, if any.
    pub(crate) fn index_of(self, layout: &Layout, offset: u64) -> Option<u32> {
        match self {
            Self::Segment => layout.shm.index_of(offset),
            Self::Semaphore => layout.sem.index_of(offset),
            Self::Queue => layout.msg.index_of(offset),
        }
    }

    /// What slot `index` of this kind has in common with those of other kinds.
    #[inline]
    pub(crate) fn row(self, layout: &Layout, index: u32) -> Result<Place<ObjectHeader>, NoRow> {
        match self {
            Self::Segment => layout.shm.row(index).map(Place::<ShmSlot>::header),
            Self::Semaphore => layout.sem.row(index).map(Place::<SemSlot>::header),
            Self::Queue => layout.msg.row(index).map(Place::<MsgSlot>::header),
        }
    }
}

/// Index and sequence of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectSlot {
    pub index: u32,
    pub sequence: u32,
}

impl ObjectSlot {
    /// The System V id.
    #[inline]
    pub fn id(self) -> i32 {
        ((self.sequence & 0xffff) * ID_STRIDE + INDEX_BASE + self.index) as i32
    }

    /// The reverse; `None` for an id that no pool gives out.
    #[inline]
    pub fn of(id: i32) -> Option<Self> {
        let id = u32::try_from(id).ok()?;
        let index = (id % ID_STRIDE).checked_sub(INDEX_BASE)?;
        Some(Self { index, sequence: id / ID_STRIDE })
    }
}

/// Whether an id is one that pools give out, and so not one of the kernel's.
#[must_use]
pub fn is_pool_id(id: i32) -> bool {
    ObjectSlot::of(id).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_and_come_back() {
        for index in [0, 1, 16383] {
            for sequence in [0, 1, 65535] {
                let object_slot = ObjectSlot { index, sequence };
                assert!(object_slot.id() >= 0);
                assert_eq!(ObjectSlot::of(object_slot.id()), Some(object_slot));
            }
        }
    }

    #[test]
    fn ids_of_the_kernel_are_distinguished() {
        for id in [-1, 0, 1, 16383, 32768, 32768 + 5] {
            assert_eq!(ObjectSlot::of(id), None, "{id}");
        }
    }
}
