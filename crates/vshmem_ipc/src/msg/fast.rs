//! msgsnd(2) and msgrcv(2) through the ring: a compare-and-swap each, without the lock.
//!
//! Both look at the ring first and at the rest (is the queue still this one, may the caller, is the
//! chunk still its own) afterwards. Removing a queue, changing its owner and reaping a client all
//! close the ring; so if the compare-and-swap succeeds, then what was found was true when it was
//! found and nothing has changed since.
//!
//! A receiver that looks for a while before it sleeps (`await_message`) only reads the
//! ring between its attempts, and each of them is the one above. So it adds no step at which a
//! crash could leave anything behind.

use vshmem_mem::{Map, seconds_now};
use vshmem_sync::{Fault, field, load_cell, load_value};
use vshmem_wire::{Cell, MsgSlot, ObjectState, Place, RawCell};

use crate::context::Context;
use crate::msg::queue::Queue;

/// Attempts before a call goes under the lock; each but the last has met another client's progress.
pub(crate) const MOST_ATTEMPTS: u32 = 64;

/// Which process made the last msgsnd or msgrcv, and when. It is written after the step; of two
/// calls the one that writes later counts as the last.
pub(crate) struct Stamp {
    process_ref_at: Place<RawCell>,
    process_ref: Cell,
    time_at: Place<RawCell>,
    time: Cell,
}

impl Stamp {
    /// As it is before the step: a new queue in the same slot does not get it.
    #[inline]
    pub(crate) fn before(
        map: &Map,
        process_ref_at: Place<RawCell>,
        time_at: Place<RawCell>,
    ) -> Result<Self, Fault> {
        let (process_ref, time) = (load_cell(map, process_ref_at)?, load_cell(map, time_at)?);
        Ok(Self { process_ref_at, process_ref, time_at, time })
    }

    #[inline]
    pub(crate) fn renew(&self, map: &Map, process_ref: u32) -> Result<(), Fault> {
        if self.process_ref.value() != process_ref {
            map.replace_cell(self.process_ref_at, self.process_ref, process_ref.into())?;
        }
        let now = seconds_now();
        if self.time.value() != now {
            map.replace_cell(self.time_at, self.time, now.into())?;
        }
        Ok(())
    }
}

/// Whether the queue is still the one that was looked up, and this process a member.
#[inline]
pub(crate) fn queue_is_current(context: &Context, queue: &Queue) -> Result<bool, Fault> {
    let state = load_value(context.pool().map(), field!(queue.slot, MsgSlot, header.state))?;
    Ok(state == queue.state_word(ObjectState::Live) && context.is_current())
}
