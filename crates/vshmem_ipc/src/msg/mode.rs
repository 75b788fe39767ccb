//! Where the messages of a queue are: which of its two rings it uses, if any.
//!
//! Each queue has a ring of eight slots in its own slot of the table. When that has been too short
//! for the first time, it gets a long ring (`long_ring.rs`), and uses that one from some later time
//! on that its list is empty: `may_use_long` in `ring.rs` says when, and `count.rs` when no more.
//!
//! A ring that is not in use is empty, and its tail is closed: so a thread that has looked at it
//! before fails at its slot, as with any ring that is closed. It is opened again by the change that
//! says in the word of the mode that it is in use.
//!
//! # Awaited types
//! Beside the bits of [`QueueMode`] the word has the message types that sleeping receivers wait
//! for: a set that every sender reads. Small types have a bit of their own: they usually
//! distinguish kinds of requests. Others, often process ids, share theirs with some. So the set may
//! name types that no receiver waits for; it names all that a receiver does wait for.

use vshmem_mem::Map;
use vshmem_sync::{Fault, Txn, load_value, load_word};
use vshmem_wire::{LONG_RING_SLOTS, Layout, MsgSlot, Place, QueueMode, RING_SLOTS, RawCell};

use crate::msg::message::Search;
use crate::msg::queue::{Queue, at};
use crate::pool::chunk::Chunk;
use crate::wait::wait_queue;

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

/// Whether there may be no room for a message although a slot is free, in a queue with this limit:
/// its bytes are counted.
#[inline]
pub(crate) fn is_large_in<const N: usize>(limit: u64, bytes: u64) -> bool {
    bytes > limit / N as u64
}

/// Whether something that happens at one of 2 to the power of `rarity` numbers happens at this one.
/// By Fibonacci hashing: numbers that are regularly apart meet it as often as any others.
pub(super) fn is_turn(number: u32, rarity: u32) -> bool {
    number.wrapping_mul(0x9e37_79b1).leading_zeros() >= rarity
}

/// The long ring, if the queue has one. One that cannot be, which a peer has written, is none.
#[inline]
pub(crate) fn long_ring(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
) -> Result<Option<Place<[RawCell; LONG_RING_SLOTS]>>, Fault> {
    Ok(long_ring_at(layout, load_value(map, at!(queue, long_ring))?))
}

/// Where the long ring begins, by what the slot of its queue says.
#[inline]
pub(crate) fn long_ring_at(
    layout: &Layout,
    said: u32,
) -> Option<Place<[RawCell; LONG_RING_SLOTS]>> {
    let base: Place<[RawCell; LONG_RING_SLOTS]> = Chunk(said.checked_sub(1)?).place(layout).ok()?;
    (base.nth(1).offset() <= layout.heap.end()).then_some(base)
}

/// Where the ring of `N` slots of a queue is.
#[inline(always)]
pub(crate) fn ring_base<const N: usize>(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
) -> Result<Place<[RawCell; N]>, Fault> {
    const { assert!(N == RING_SLOTS || N == LONG_RING_SLOTS) };
    if N == RING_SLOTS {
        return Ok(Place::at(queue.ring().offset()));
    }
    let long = long_ring(map, layout, queue)?.ok_or_else(|| no_long_ring(queue.slot))?;
    Ok(Place::at(long.offset()))
}

/// What is wrong with the queue in `slot`.
pub(crate) fn no_long_ring(slot: Place<MsgSlot>) -> Fault {
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

/// Types that receivers wait for, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AwaitedTypes(u64);

/// The bits of the mode.
const MODE: u64 = QueueMode::List as u64 | QueueMode::LongRing as u64;

/// Types below have a bit of their own, above those of the mode.
const SMALL: i64 = 31;
/// The first bit that types share, and how many such bits there are.
const SHARED: i64 = 32;

fn bit_of(mtype: i64) -> u64 {
    let nth = if (1..SMALL).contains(&mtype) { mtype + 1 } else { SHARED + (mtype & (SHARED - 1)) };
    1 << nth
}

impl AwaitedTypes {
    /// No thread sleeps.
    pub const NONE: Self = Self(0);

    /// What the word of a mode says.
    #[inline]
    pub fn in_mode(mode: u64) -> Self {
        Self(mode & !MODE)
    }

    /// The word of the mode of a queue that uses that ring.
    pub fn mode(self, ring: RingInUse) -> u64 {
        self.0 | ring.mode() as u64
    }

    /// Whether another thread may wait for that type.
    #[inline]
    pub fn has(self, mtype: i64) -> bool {
        // Usually no receiver waits.
        self != Self::NONE && self.0 & bit_of(mtype) != 0
    }

    /// With what one more receiver waits for.
    pub fn with(self, search: Search) -> Self {
        match search {
            Search::Equal(mtype) => Self(self.0 | bit_of(mtype)),
            _ => Self(!MODE),
        }
    }

    /// What those in the wait queue of receivers wait for.
    pub fn waiting_types(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<Self, Fault> {
        let mut awaited_types = Self::NONE;
        if txn.get(at!(queue, receive_head))? == 0 {
            return Ok(awaited_types);
        }
        wait_queue::walk(txn, layout, queue.receivers(), |txn, slot| {
            let at = layout.threads.row(slot)?;
            let map = txn.lock_context().map;
            awaited_types = awaited_types.with(Search::of_waiter(map, at)?);
            Ok(true)
        })?;
        Ok(awaited_types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_types_are_named_and_small_types_are_told_apart() {
        assert!(!AwaitedTypes::NONE.has(1) && !AwaitedTypes::NONE.has(4711));
        let three = AwaitedTypes::NONE.with(Search::Equal(3)).with(Search::Equal(4711));
        assert!(three.has(3) && three.has(4711) && !three.has(1) && !three.has(4712));
        for ring in [RingInUse::Short, RingInUse::Long] {
            let mode = three.mode(ring);
            assert_eq!(RingInUse::of(mode), Some(ring));
            assert_eq!(AwaitedTypes::in_mode(mode), three);
        }
        assert_eq!(AwaitedTypes::in_mode(QueueMode::List as u64), AwaitedTypes::NONE);
        for mtype in [1, 29, 30, 31, 32, 33, 63, i64::MAX] {
            assert!(AwaitedTypes::NONE.with(Search::Equal(mtype)).has(mtype));
            for search in [Search::Any, Search::NotEqual(mtype), Search::AtMost(mtype)] {
                assert!(AwaitedTypes::NONE.with(search).has(mtype));
            }
        }
    }
}
