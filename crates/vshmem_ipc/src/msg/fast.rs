//! msgsnd(2) and msgrcv(2) through the ring: a compare-and-swap each, without the lock.
//!
//! Both look at the ring first and at the rest (is the queue still this one, may the caller, is the
//! chunk still its own) afterwards. Removing a queue, changing its owner and burying a client all
//! close the ring; so if the compare-and-swap succeeds, then what was found was true when it was
//! found and nothing has changed since.
//!
//! A receiver that looks for a while before it sleeps ([`Member::await_message`]) only reads the
//! ring between its attempts, and each of them is the one above. So it adds no step at which a
//! crash could leave anything behind.

use vshmem_mem::{Map, seconds_now};
use vshmem_sync::{Fault, field, load_cell, load_value};
use vshmem_wire::{Cell, ObjectHeader, ObjectState};

use crate::context::Context;
use crate::msg::queue::Queue;

/// Attempts before a call goes under the lock; each but the last has met somebody else's progress.
pub(crate) const MOST_ATTEMPTS: u32 = 64;

/// Who and when, of the last msgsnd or msgrcv: not part of the step, whoever writes it last.
pub(crate) struct Stamp {
    party_at: u64,
    party: Cell,
    time_at: u64,
    time: Cell,
}

impl Stamp {
    /// As it is before the step: a queue that has changed hands since does not get it.
    #[inline]
    pub(crate) fn before(map: &Map, party_at: u64, time_at: u64) -> Result<Self, Fault> {
        let (party, time) = (load_cell(map, party_at)?, load_cell(map, time_at)?);
        Ok(Self { party_at, party, time_at, time })
    }

    #[inline]
    pub(crate) fn renew(&self, map: &Map, party: u32) -> Result<(), Fault> {
        if self.party.value() != party {
            map.replace_cell(self.party_at, self.party, party.into())?;
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
pub(crate) fn queue_stands(context: &Context, queue: &Queue) -> Result<bool, Fault> {
    let state = load_value(context.pool().map(), field!(queue.slot, ObjectHeader, state))?;
    Ok(state == queue.stands(ObjectState::Live) && context.stands())
}
