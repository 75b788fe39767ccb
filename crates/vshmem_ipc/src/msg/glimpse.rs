//! What calls that make one attempt have in common, of queues of System V (`at_once.rs`) and of
//! POSIX (`posix/at_once.rs`).
//!
//! The steps, their order and what they prove are those of `fast_send.rs` and `fast_receive.rs`.
//! Here each structure is checked once, there is one attempt, and whatever is unusual ends it:
//! nothing has happened then, and the caller takes the longer path. So none of its state has to
//! outlive a turn of a loop, and the compiler keeps it in registers.

use std::mem::offset_of;

use vshmem_mem::{Map, Ordering, WordsRef};
use vshmem_sync::{Inline, RingSlot, RingWords, crash_point, structure};
use vshmem_wire::{
    LONG_RING_BYTES, LONG_RING_SLOTS, Layout, MSG_HEADER_BYTES, MsgSlot, ObjectHeader, ObjectState,
    RING_SLOTS, RawCell, RingReserve, WORD_BYTES,
};

use crate::context::Context;
use crate::msg::fast::Stamp;
use crate::msg::fast_send::inline_of;
use crate::msg::mode::long_ring_at;
use crate::msg::queue::{Queue, at};
use crate::msg::ring_chunk::{RingChunk, claim_spare, keep};
use crate::pool::chunk::Chunk;
use crate::pool::id::ObjectSlot;

/// Words of a queue's slot.
const WORDS: usize = size_of::<MsgSlot>() / WORD_BYTES as usize;
/// Words of a long ring.
const LONG_WORDS: usize = (LONG_RING_BYTES / WORD_BYTES) as usize;

/// A queue as an attempt knows it.
#[derive(Clone, Copy)]
pub(crate) struct Glimpse<'a> {
    pub queue: Queue,
    /// Words of its slot.
    pub fields: WordsRef<'a, WORDS>,
    /// Whether anybody can ask when a message was last sent or received: msgctl(2), but not
    /// mq_getattr(3).
    pub has_times: bool,
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

/// Who and when, where that changes: `$who` and `$when` are fields of the slot.
macro_rules! stamp {
    ($context:expr, $glimpse:expr, $who:ident, $when:ident) => {{
        let is_same = load!($glimpse, $who) as u32 == $context.process_ref().pack()
            && (!$glimpse.has_times || load!($glimpse, $when) as u32 == vshmem_mem::seconds_now());
        match is_same {
            true => None,
            false => Some(
                Stamp::before(
                    $context.pool().map(),
                    at!($glimpse.queue, $who),
                    at!($glimpse.queue, $when),
                )
                .ok()?,
            ),
        }
    }};
}

impl<'a> Glimpse<'a> {
    /// The queue of an id, whatever its state; `None`: there is no such slot.
    #[inline(always)]
    pub fn of(context: &'a Context, id: i32) -> Option<Self> {
        let ObjectSlot { index, sequence } = ObjectSlot::of(id)?;
        let slot = context.pool().layout().msg.at(index)?;
        let fields = structure!(context.pool().map(), slot, MsgSlot).ok()?;
        Some(Self { queue: Queue { index, sequence, slot }, fields, has_times: true })
    }

    /// The queue of an id, if this process knows it as one of System V.
    #[inline(always)]
    pub fn of_system_v(context: &'a Context, id: i32) -> Option<Self> {
        Self::of(context, id).filter(|glimpse| glimpse.queue.is_known_as_system_v(context))
    }

    /// The ring in the slot of the queue.
    #[inline(always)]
    pub fn ring(&self) -> RingWords<'a, WORDS, RING_SLOTS> {
        RingWords::of(self.fields, offset_of!(MsgSlot, ring), self.queue.ring())
    }

    /// The long ring, if there is one.
    #[inline(always)]
    pub fn long_ring(
        &self,
        context: &'a Context,
    ) -> Option<RingWords<'a, LONG_WORDS, LONG_RING_SLOTS>> {
        let base = long_ring_at(context.pool().layout(), load!(self, long_ring) as u32)?;
        let cells = structure!(context.pool().map(), base, [RawCell; LONG_RING_SLOTS]).ok()?;
        Some(RingWords::of(cells, 0, base))
    }

    /// As `fast::queue_is_current`.
    #[inline(always)]
    fn is_current(&self, context: &Context) -> bool {
        let at = offset_of!(MsgSlot, header) + offset_of!(ObjectHeader, state);
        let state = self.fields.load(at, Ordering::Acquire) as u32;
        state == self.queue.state_word(ObjectState::Live) && context.is_current()
    }
}

/// Sends a message at the tail. `None`: it was not sent.
#[inline(always)]
pub(crate) fn send<const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot<N>,
    mtype: i64,
    message: &[u8],
) -> Option<()> {
    match inline_of::<N>(mtype, message) {
        Some(message) => send_inline(context, glimpse, tail, message)?,
        None => send_in_chunk(context, glimpse, tail, mtype, message)?,
    }
    context.ring_hints.note_tail(glimpse.queue.index, tail.index() + 1);
    context.send_backoff.note_sent();
    Some(())
}

/// The same of one that fits into the slot.
#[inline(always)]
fn send_inline<const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot<N>,
    message: Inline,
) -> Option<()> {
    let is_whole = RingReserve::is_whole(load!(glimpse, tail) as u32);
    // A chunk that the slot notes would be forgotten.
    if !is_whole || tail.chunk().is_some() || !glimpse.is_current(context) {
        return None;
    }
    let map = context.pool().map();
    let stamp = stamp!(context, glimpse, sender, sent);
    crash_point("msg-fast-send", "written");
    if !tail.fill_inline(map, message, false).ok()? {
        return None;
    }
    crash_point("msg-fast-send", "sent");
    renew(context, stamp.as_ref());
    crash_point("msg-fast-send", "stamped");
    Some(())
}

/// The same in the chunk that the slot notes.
#[inline(always)]
fn send_in_chunk<const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot<N>,
    mtype: i64,
    message: &[u8],
) -> Option<()> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let Glimpse { queue, .. } = glimpse;
    map.will_write(Chunk(tail.chunk()?).offset(layout).ok()?);
    let chunk = claim_spare(map, layout, queue.index, tail, context.client_id()).ok()??;
    crash_point("msg-fast-send", "claimed");
    let sent = fill(context, glimpse, tail, chunk, mtype, message);
    if sent.is_none() && chunk.is_ours(map).unwrap_or(false) {
        keep(context, chunk);
    }
    sent
}

#[inline(always)]
fn fill<const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot<N>,
    chunk: RingChunk,
    mtype: i64,
    message: &[u8],
) -> Option<()> {
    let Glimpse { queue, .. } = glimpse;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if !chunk.fits(map, layout, message.len() as u64).ok()? {
        return None;
    }
    if !glimpse.is_current(context) || !chunk.is_ours(map).ok()? {
        return None;
    }
    chunk.write(map, queue.index, tail, mtype, message).ok()?;
    let stamp = stamp!(context, glimpse, sender, sent);
    // Not after the slot is filled: the line is the receiver's then.
    let next = tail.next_on_line(map, tail.base()).ok()?;
    crash_point("msg-fast-send", "written");
    if !tail.fill(map, chunk.chunk.0, false).ok()? {
        return None;
    }
    crash_point("msg-fast-send", "sent");
    if let Some(Ok(at)) = next.and_then(RingSlot::chunk).map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
    renew(context, stamp.as_ref());
    crash_point("msg-fast-send", "stamped");
    Some(())
}

/// Copies the payload of the oldest message out.
#[inline(always)]
pub(crate) fn read<const N: usize>(
    map: &Map,
    layout: &Layout,
    head: RingSlot<N>,
    into: &mut [u8],
) -> Option<()> {
    match head.chunk() {
        Some(unit) => map.read(Chunk(unit).offset(layout).ok()? + MSG_HEADER_BYTES, into).ok(),
        None => {
            let payload = head.inline_payload(map).ok()?;
            into.copy_from_slice(payload.get(..into.len())?);
            Some(())
        }
    }
}

/// Takes the oldest message, whose payload has been copied. `None`: it was not taken.
#[inline(always)]
pub(crate) fn take<const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    head: RingSlot<N>,
) -> Option<()> {
    if !glimpse.is_current(context) {
        return None;
    }
    let stamp = stamp!(context, glimpse, receiver, received);
    crash_point("msg-fast-receive", "copied");
    if !head.take(context.pool().map()).ok()? {
        return None;
    }
    context.ring_hints.note_head(glimpse.queue.index, head.index() + 1);
    crash_point("msg-fast-receive", "taken");
    renew(context, stamp.as_ref());
    crash_point("msg-fast-receive", "stamped");
    Some(())
}

/// The message is sent, or taken: nothing that goes wrong here matters to the caller.
#[inline(always)]
fn renew(context: &Context, stamp: Option<&Stamp>) {
    if let Some(stamp) = stamp {
        let _ = stamp.renew(context.pool().map(), context.process_ref().pack());
    }
}
