//! The message types that sleeping receivers wait for: a set that every sender reads.
//!
//! It lies in the word of the queue's mode, beside the bits of [`QueueMode`]. Small types have a
//! bit of their own: they usually distinguish kinds of requests. Others, often process ids, share
//! theirs with some. So the set may name types that no receiver waits for; it names all that a
//! receiver does wait for.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{Layout, QueueMode, ReceiveWait};

use crate::msg::message::Search;
use crate::msg::mode::RingInUse;
use crate::msg::queue::{Queue, at};
use crate::pool::threads::thread_at;
use crate::wait::wait_queue;

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
            let at = thread_at(layout, slot)?;
            let map = txn.lock_context().map;
            let mode = map.load(field!(at.receive_wait(), ReceiveWait, mode), Ordering::Relaxed)?;
            let mtype =
                map.load(field!(at.receive_wait(), ReceiveWait, mtype), Ordering::Relaxed)?;
            awaited_types = awaited_types.with(Search::unpack(mode, mtype));
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
