//! Where a structure lies in a pool, with its type.

use core::marker::PhantomData;

use crate::{MsgSlot, ObjectHeader, RawCell, SemSlot, ShmSlot};

/// A structure of type `T` at a byte offset of the pool.
///
/// Places come from the layout ([`crate::Area::at`], [`crate::Layout`]) and from other places
/// ([`field!`](crate::field)). So a field of a segment cannot be looked for in the slot of a
/// semaphore set:
///
/// ```
/// use vshmem_wire::{Geometry, RawCell, Place, SemSlot, ShmSlot, field};
///
/// let layout = Geometry::for_size(16 << 20)?.layout()?;
/// let slot: Place<ShmSlot> = layout.shm.at(0).expect("a slot");
/// let pages: Place<RawCell> = field!(slot, ShmSlot, pages);
/// # Ok::<(), vshmem_wire::GeometryError>(())
/// ```
///
/// ```compile_fail,E0308
/// use vshmem_wire::{Geometry, SemSlot, ShmSlot, field};
///
/// let layout = Geometry::for_size(16 << 20)?.layout()?;
/// let sem_slot = layout.sem.at(0).expect("a slot");
/// let pages = field!(sem_slot, ShmSlot, pages);
/// # Ok::<(), vshmem_wire::GeometryError>(())
/// ```
///
/// Whether the offset lies in the pool is not known here: each access asks.
pub struct Place<T> {
    offset: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> Place<T> {
    /// The structure at byte `offset` of the pool. For layouts, for offsets that the pool itself
    /// holds, and for tests.
    #[inline]
    #[must_use]
    pub const fn at(offset: u64) -> Self {
        Self { offset, kind: PhantomData }
    }

    /// Byte offset.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Structure number `index` of those that follow each other from here; this one is 0.
    #[inline]
    #[must_use]
    pub const fn nth(self, index: u64) -> Self {
        Self::at(self.offset.wrapping_add(index.wrapping_mul(size_of::<T>() as u64)))
    }

    /// A field, for [`field!`](crate::field) alone: `offset` is that of what `_field` names.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub const fn field<F>(self, offset: usize, _field: fn(&T) -> &F) -> Place<F> {
        Place::at(self.offset.wrapping_add(offset as u64))
    }
}

impl<T, const N: usize> Place<[T; N]> {
    /// The first of a row.
    #[inline]
    #[must_use]
    pub const fn first(self) -> Place<T> {
        Place::at(self.offset)
    }

    /// Number `index` of a row.
    #[inline]
    #[must_use]
    pub const fn element(self, index: u64) -> Place<T> {
        self.first().nth(index)
    }
}

impl Place<RawCell> {
    /// The word of a cell, for who does not ask whether it was written.
    #[inline]
    #[must_use]
    pub const fn word(self) -> Place<u64> {
        Place::at(self.offset + core::mem::offset_of!(RawCell, word) as u64)
    }

    /// The tag of a cell, for who only asks whether it was written.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> Place<u64> {
        Place::at(self.offset + core::mem::offset_of!(RawCell, tag) as u64)
    }
}

macro_rules! objects {
    ($($slot:ty),*) => {
        $(impl Place<$slot> {
            /// What the object has in common with those of other kinds.
            #[inline]
            #[must_use]
            pub const fn header(self) -> Place<ObjectHeader> {
                Place::at(self.offset + core::mem::offset_of!($slot, header) as u64)
            }
        })*
    };
}

objects!(ShmSlot, SemSlot, MsgSlot);

// By hand: a derive asks the same of `T`.
impl<T> Clone for Place<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> PartialEq for Place<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}

impl<T> Eq for Place<T> {}

impl<T> core::fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.offset)
    }
}

impl<T> From<Place<T>> for u64 {
    #[inline]
    fn from(place: Place<T>) -> Self {
        place.offset
    }
}

/// What a view of shared bytes can find a `T` by: a [`Place`] of it in a pool, or the byte offset
/// in memory that has no layout of places.
pub trait At<T>: Copy {
    /// Byte offset.
    fn offset(self) -> u64;
}

impl<T> At<T> for Place<T> {
    #[inline]
    fn offset(self) -> u64 {
        self.offset
    }
}

impl<T> At<T> for u64 {
    #[inline]
    fn offset(self) -> u64 {
        self
    }
}

/// The place of a field of the structure of type `$type` that lies at `$place`.
#[macro_export]
macro_rules! field {
    ($place:expr, $type:ty, $($field:tt)+) => {
        <$crate::Place<$type>>::field(
            $place,
            ::core::mem::offset_of!($type, $($field)+),
            |structure| &structure.$($field)+,
        )
    };
}
