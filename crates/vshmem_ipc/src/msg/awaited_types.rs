//! Which types sleeping receivers wait for: a set that every sender looks at.
//!
//! It lies in the word of the queue's mode, beside the bit that says *list*. Types that are small
//! share their bit with nobody: they usually tell kinds of requests apart. Others, often process
//! ids, share theirs with some. So the set may name types that nobody waits for; it names all that
//! somebody does.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{Layout, QueueMode, ThreadSlot};

use crate::msg::message::Search;
use crate::msg::queue::{Queue, at};
use crate::pool::threads::thread_at;
use crate::wait::wait_queue;

/// Types that are somebody's, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited(u64);

/// The bit of the mode.
const LIST: u64 = QueueMode::List as u64;

/// Types below have a bit of their own.
const SMALL: i64 = 32;

fn bit_of(kind: i64) -> u64 {
    let nth = if (1..SMALL).contains(&kind) { kind } else { SMALL + (kind & (SMALL - 1)) };
    1 << nth
}

/// Whether the word of a mode says that the queue uses its list.
#[inline]
pub(crate) fn says_list(mode: u64) -> bool {
    mode & LIST != 0
}

impl Awaited {
    /// Nobody sleeps.
    pub const NONE: Self = Self(0);

    /// What the word of a mode says.
    #[inline]
    pub fn in_mode(mode: u64) -> Self {
        Self(mode & !LIST)
    }

    /// The word of the mode *ring*.
    pub fn mode(self) -> u64 {
        self.0
    }

    /// Whether somebody may wait for that type.
    #[inline]
    pub fn has(self, kind: i64) -> bool {
        // Hardly ever is there anybody.
        self != Self::NONE && self.0 & bit_of(kind) != 0
    }

    /// With what one more receiver waits for.
    pub fn with(self, search: Search) -> Self {
        match search {
            Search::Equal(kind) => Self(self.0 | bit_of(kind)),
            _ => Self(!LIST),
        }
    }

    /// What those in the line of receivers wait for.
    pub fn in_line(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<Self, Fault> {
        let mut awaited = Self::NONE;
        if txn.get(at!(queue, receive_head))? == 0 {
            return Ok(awaited);
        }
        wait_queue::walk(txn, layout, queue.receivers(), |txn, slot| {
            let at = thread_at(layout, slot)?;
            let map = txn.desk().map;
            let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            let kind = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
            awaited = awaited.with(Search::unpack(mode, kind));
            Ok(true)
        })?;
        Ok(awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_named_and_small_types_are_told_apart() {
        assert!(!Awaited::NONE.has(1) && !Awaited::NONE.has(4711));
        let three = Awaited::NONE.with(Search::Equal(3)).with(Search::Equal(4711));
        assert!(three.has(3) && three.has(4711) && !three.has(1) && !three.has(4712));
        assert!(!says_list(three.mode()) && Awaited::in_mode(three.mode()) == three);
        assert!(says_list(LIST) && Awaited::in_mode(LIST) == Awaited::NONE);
        for kind in [1, 31, 32, 33, 63, i64::MAX] {
            assert!(Awaited::NONE.with(Search::Equal(kind)).has(kind));
            for search in [Search::Any, Search::NotEqual(kind), Search::AtMost(kind)] {
                assert!(Awaited::NONE.with(search).has(kind));
            }
        }
    }
}
