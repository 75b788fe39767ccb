//! A queue as a call through a ring knows it: each structure is found and checked once.
//!
//! A call looks at the ring first and at the rest (is the queue still this one, may the caller, is
//! the chunk still its own) afterwards. Removing a queue, changing its owner and reaping a client
//! all close the ring; so if the compare-and-swap succeeds, then what was found was true when it
//! was found and nothing has changed since.

use std::mem::offset_of;

use vshmem_mem::{Map, Ordering, WordsRef, seconds_now};
use vshmem_sync::{Fault, RingWords, load_cell, structure};
use vshmem_wire::{
    Cell, LONG_RING_BYTES, LONG_RING_SLOTS, MsgSlot, ObjectHeader, ObjectState, Place, RING_SLOTS,
    RawCell, WORD_BYTES,
};

use crate::context::Context;
use crate::msg::mode::{long_ring_at, no_long_ring};
use crate::msg::queue::Queue;
use crate::pool::id::ObjectSlot;

/// Attempts before a call goes under the lock; each but the last has met another client's progress.
pub(crate) const MOST_ATTEMPTS: u32 = 64;

/// Words of a queue's slot.
const WORDS: usize = size_of::<MsgSlot>() / WORD_BYTES as usize;
/// Words of a long ring.
const LONG_WORDS: usize = (LONG_RING_BYTES / WORD_BYTES) as usize;

/// A queue that a call is about to use the ring of.
#[derive(Clone, Copy)]
pub(crate) struct Glimpse<'a> {
    pub queue: Queue,
    /// Words of its slot.
    pub fields: WordsRef<'a, WORDS>,
    /// Whether the queue is one of POSIX. There the access was checked when it was opened, messages
    /// have an order of their own, and nobody can ask when one was last sent or received:
    /// mq_getattr(3) does not tell, other than msgctl(2).
    pub is_posix: bool,
}

macro_rules! load {
    ($glimpse:expr, $field:ident) => {
        $glimpse.fields.load(
            ::std::mem::offset_of!(vshmem_wire::MsgSlot, $field),
            vshmem_mem::Ordering::Acquire,
        )
    };
}
pub(crate) use load;

impl<'a> Glimpse<'a> {
    /// The queue of an id, whatever its state; `None`: there is no such slot.
    #[inline(always)]
    fn of_id(context: &'a Context, id: i32, is_posix: bool) -> Option<Self> {
        let object_slot = ObjectSlot::of(id)?;
        let slot = context.pool().layout().msg.at(object_slot.index)?;
        Self::of(context, Queue::at(object_slot, slot), is_posix).ok()
    }

    /// The queue of an id, if this process knows it as one of System V.
    #[inline(always)]
    pub fn of_system_v(context: &'a Context, id: i32) -> Option<Self> {
        Self::of_id(context, id, false).filter(|it| it.queue.is_known_as_system_v(context))
    }

    /// The queue of an id, if it is one of POSIX.
    #[inline(always)]
    pub fn of_posix(context: &'a Context, id: i32) -> Option<Self> {
        Self::of_id(context, id, true).filter(|it| load!(it, most_messages) as u32 != 0)
    }

    /// A queue that has been looked up.
    #[inline(always)]
    pub fn of(context: &'a Context, queue: Queue, is_posix: bool) -> Result<Self, Fault> {
        let fields = structure!(context.pool().map(), queue.slot, MsgSlot)?;
        Ok(Self { queue, fields, is_posix })
    }

    /// The ring in the slot of the queue.
    #[inline(always)]
    pub fn ring(&self) -> RingWords<'a, WORDS, RING_SLOTS> {
        RingWords::of(self.fields, offset_of!(MsgSlot, ring), self.queue.ring())
    }

    /// The long ring, of a queue that uses it.
    #[inline(always)]
    pub fn long_ring(
        &self,
        context: &'a Context,
    ) -> Result<RingWords<'a, LONG_WORDS, LONG_RING_SLOTS>, Fault> {
        let said = load!(self, long_ring) as u32;
        let Some(base) = long_ring_at(context.pool().layout(), said) else {
            return Err(no_long_ring(self.queue.slot));
        };
        let cells = structure!(context.pool().map(), base, [RawCell; LONG_RING_SLOTS])?;
        Ok(RingWords::of(cells, 0, base))
    }

    /// Whether the queue is still the one that was looked up, and this process a member.
    #[inline(always)]
    pub fn is_current(&self, context: &Context) -> bool {
        let at = offset_of!(MsgSlot, header) + offset_of!(ObjectHeader, state);
        let state = self.fields.load(at, Ordering::Acquire) as u32;
        state == self.queue.state_word(ObjectState::Live) && context.is_current()
    }
}

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

    /// The message is sent, or taken: nothing that goes wrong here matters to the caller.
    #[inline]
    pub(crate) fn renew(&self, context: &Context) {
        let _ = self.try_to_renew(context.pool().map(), context.process_ref().pack());
    }

    #[inline]
    fn try_to_renew(&self, map: &Map, process_ref: u32) -> Result<(), Fault> {
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

/// The stamp of a step, where it changes: `$who` and `$when` are fields of the slot.
macro_rules! stamp {
    ($context:expr, $glimpse:expr, $who:ident, $when:ident) => {{
        let is_same = load!($glimpse, $who) as u32 == $context.process_ref().pack()
            && ($glimpse.is_posix || load!($glimpse, $when) as u32 == vshmem_mem::seconds_now());
        match is_same {
            true => None,
            false => Some($crate::msg::glimpse::Stamp::before(
                $context.pool().map(),
                $crate::msg::queue::at!($glimpse.queue, $who),
                $crate::msg::queue::at!($glimpse.queue, $when),
            )?),
        }
    }};
}
pub(crate) use stamp;
