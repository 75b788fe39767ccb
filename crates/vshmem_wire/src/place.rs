//! Where a structure lies in a pool, with its type.

use core::marker::PhantomData;

/// A structure of type `T` at a byte offset of the pool.
///
/// Places come from the layout ([`crate::Area::at`], [`crate::Layout`]) and from other places
/// ([`field!`](crate::field)). So a field of a segment cannot be looked for in the slot of a
/// semaphore set, nor a word where a cell is: `WrongPlaces` below has what must not compile.
///
/// ```
/// use vshmem_wire::{Geometry, Place, RawCell, ShmSlot, field};
///
/// let layout = Geometry::for_size(16 << 20)?.layout()?;
/// let slot: Place<ShmSlot> = layout.shm.at(0).expect("a slot");
/// let pages: Place<RawCell> = field!(slot, ShmSlot, pages);
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

    /// The structure `index` further on, of several of this type that lie one behind the other.
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
    /// The first of an array.
    #[inline]
    #[must_use]
    pub const fn first(self) -> Place<T> {
        Place::at(self.offset)
    }

    /// Element `index` of an array. Whether there are so many is not asked.
    #[inline]
    #[must_use]
    pub const fn element(self, index: u64) -> Place<T> {
        self.first().nth(index)
    }
}

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

/// How an access names a `T`: by its [`Place`] in a pool, or, in memory that has no layout of
/// places, by its byte offset.
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

/// What must not compile. Before each stands what must: it differs in the type alone.
///
/// A slot of another kind:
/// ```
/// # use vshmem_wire::{Layout, ShmSlot, field};
/// fn pages(layout: &Layout) {
///     field!(layout.shm.at(0).unwrap(), ShmSlot, pages);
/// }
/// ```
/// ```compile_fail,E0308
/// # use vshmem_wire::{Layout, ShmSlot, field};
/// fn pages(layout: &Layout) {
///     field!(layout.sem.at(0).unwrap(), ShmSlot, pages);
/// }
/// ```
/// What is common to all objects, of what is none:
/// ```
/// # use vshmem_wire::{Layout, ObjectHeader, Place};
/// fn header(layout: &Layout) -> Place<ObjectHeader> {
///     layout.msg.at(0).unwrap().header()
/// }
/// ```
/// ```compile_fail,E0599
/// # use vshmem_wire::{Layout, ObjectHeader, Place};
/// fn header(layout: &Layout) -> Place<ObjectHeader> {
///     layout.undos.at(0).unwrap().header()
/// }
/// ```
/// A cell where a word is wanted:
/// ```
/// # use vshmem_wire::{Place, ThreadSlot, field};
/// fn word(slot: Place<ThreadSlot>) -> Place<u64> {
///     field!(slot, ThreadSlot, intent_head)
/// }
/// ```
/// ```compile_fail,E0308
/// # use vshmem_wire::{Place, ThreadSlot, field};
/// fn word(slot: Place<ThreadSlot>) -> Place<u64> {
///     field!(slot, ThreadSlot, owner)
/// }
/// ```
/// What a thread waits for, of another kind of wait:
/// ```
/// # use vshmem_wire::{Place, ReceiveWait, ThreadSlot, field};
/// fn mtype(slot: Place<ThreadSlot>) {
///     field!(slot.receive_wait(), ReceiveWait, mtype);
/// }
/// ```
/// ```compile_fail,E0308
/// # use vshmem_wire::{Place, ReceiveWait, ThreadSlot, field};
/// fn mtype(slot: Place<ThreadSlot>) {
///     field!(slot.send_wait(), ReceiveWait, mtype);
/// }
/// ```
/// The states of something else:
/// ```
/// # use vshmem_wire::{ClientSlot, ClientState, Place, StateCell, field};
/// fn state(slot: Place<ClientSlot>) -> Place<StateCell<ClientState>> {
///     field!(slot, ClientSlot, state)
/// }
/// ```
/// ```compile_fail,E0308
/// # use vshmem_wire::{ClientSlot, DomainState, Place, StateCell, field};
/// fn state(slot: Place<ClientSlot>) -> Place<StateCell<DomainState>> {
///     field!(slot, ClientSlot, state)
/// }
/// ```
/// A ring of another length:
/// ```
/// # use vshmem_wire::{MsgSlot, Place, RING_SLOTS, RawCell, field};
/// fn ring(slot: Place<MsgSlot>) -> Place<[RawCell; RING_SLOTS]> {
///     field!(slot, MsgSlot, ring)
/// }
/// ```
/// ```compile_fail,E0308
/// # use vshmem_wire::{LONG_RING_SLOTS, MsgSlot, Place, RawCell, field};
/// fn ring(slot: Place<MsgSlot>) -> Place<[RawCell; LONG_RING_SLOTS]> {
///     field!(slot, MsgSlot, ring)
/// }
/// ```
#[cfg(doctest)]
pub struct WrongPlaces;
