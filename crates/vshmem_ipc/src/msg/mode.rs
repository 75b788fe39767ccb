//! Where the messages of a queue are: which of its two rings it uses, if any.
//!
//! Each queue has a ring of eight slots in its own slot of the table. When that has been too short
//! for the first time, it gets a long ring (`long_ring.rs`), and uses that one from some later time
//! on that its list is empty: `may_use_long` in `ring.rs` says when, and `count.rs` when no more.
//!
//! A ring that is not in use is empty, and its tail is closed: so a thread that has looked at it
//! before fails at its slot, as with any ring that is closed. It is opened again by the change that
//! says in the word of the mode that it is in use.

use vshmem_mem::Map;
use vshmem_sync::{Fault, load_value, load_word};
use vshmem_wire::{LONG_RING_BYTES, LONG_RING_SLOTS, Layout, QueueMode, RING_SLOTS};

use crate::msg::queue::{Queue, at};
use crate::pool::chunk::Chunk;

/// The ring that a queue uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingInUse {
    Short,
    Long,
}

impl RingInUse {
    /// What the word of a mode says; `None`: the queue uses its list.
    #[inline]
    pub fn of(mode: u64) -> Option<Self> {
        if says_list(mode) {
            None
        } else if mode & QueueMode::LongRing as u64 == 0 {
            Some(Self::Short)
        } else {
            Some(Self::Long)
        }
    }

    /// The one of so many slots.
    #[inline]
    pub fn of_slots<const N: usize>() -> Self {
        if N == RING_SLOTS { Self::Short } else { Self::Long }
    }

    /// The word that says so, without the types that threads wait for.
    pub fn mode(self) -> QueueMode {
        match self {
            Self::Short => QueueMode::Ring,
            Self::Long => QueueMode::LongRing,
        }
    }
}

/// Whether the word of a mode says that the queue uses its list.
#[inline]
pub(crate) fn says_list(mode: u64) -> bool {
    mode & QueueMode::List as u64 != 0
}

/// Whether the word of a mode says that the queue uses its ring of `N` slots.
#[inline]
pub(crate) fn uses_ring<const N: usize>(mode: u64) -> bool {
    RingInUse::of(mode) == Some(RingInUse::of_slots::<N>())
}

/// The ring that a queue uses, for all that can be seen without the lock; `None`: its list.
#[inline]
pub(crate) fn ring_in_use(map: &Map, queue: &Queue) -> Result<Option<RingInUse>, Fault> {
    Ok(RingInUse::of(load_word(map, at!(queue, mode))?))
}

/// Whether something that happens at one of 2 to the power of `rarity` numbers happens at this one.
/// By Fibonacci hashing: numbers that are regularly apart meet it as often as any others.
pub(super) fn is_turn(number: u32, rarity: u32) -> bool {
    number.wrapping_mul(0x9e37_79b1).leading_zeros() >= rarity
}

/// Offset of the long ring, if the queue has one. A place that cannot be, which a peer has written,
/// is none.
#[inline]
pub(crate) fn long_ring(map: &Map, layout: &Layout, queue: &Queue) -> Result<Option<u64>, Fault> {
    Ok(long_ring_at(layout, load_value(map, at!(queue, long_ring))?))
}

/// Where the long ring begins, by what the slot of its queue says.
#[inline]
pub(crate) fn long_ring_at(layout: &Layout, said: u32) -> Option<u64> {
    let base = Chunk(said.checked_sub(1)?).offset(layout).ok()?;
    (base + LONG_RING_BYTES <= layout.heap.end()).then_some(base)
}

/// Offset of the ring of `N` slots of a queue.
#[inline(always)]
pub(crate) fn ring_base<const N: usize>(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
) -> Result<u64, Fault> {
    const { assert!(N == RING_SLOTS || N == LONG_RING_SLOTS) };
    if N == RING_SLOTS {
        return Ok(queue.ring());
    }
    long_ring(map, layout, queue)?.ok_or(no_long_ring(queue.slot))
}

/// What is wrong with the queue in `slot`.
pub(crate) fn no_long_ring(slot: u64) -> Fault {
    Fault::corrupt(slot, "a queue that uses a long ring and has none")
}

/// Does the same with whichever ring it is: `$slots` is the number of its slots.
macro_rules! with_ring {
    ($ring:expr, $slots:ident => $done:expr) => {
        match $ring {
            $crate::msg::mode::RingInUse::Short => {
                const $slots: usize = ::vshmem_wire::RING_SLOTS;
                $done
            }
            $crate::msg::mode::RingInUse::Long => {
                const $slots: usize = ::vshmem_wire::LONG_RING_SLOTS;
                $done
            }
        }
    };
}
pub(crate) use with_ring;
