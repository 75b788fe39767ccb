//! A short message on the way that most take: through a ring that nothing stands in the way of.
//!
//! The steps, their order and what they prove are those of `fast_send.rs` and `fast_receive.rs`.
//! Here what can be known beforehand of a POSIX queue is not asked for, each structure is checked
//! once, and whatever is unusual ends the attempt: nothing has happened then, and the caller goes
//! the long way.

use std::mem::offset_of;

use vshmem_mem::{Map, Ordering, WordsRef, seconds_now};
use vshmem_sync::{Inline, RingSlot, RingWords, crash_point, structure};
use vshmem_wire::{
    Layout, MSG_HEADER_BYTES, MsgSlot, ObjectHeader, ObjectState, QueueMode, RingReserve,
    UNIT_BYTES, WORD_BYTES,
};

use crate::context::Context;
use crate::msg::awaited_types::says_list;
use crate::msg::fast::Stamp;
use crate::msg::fast_send::keep;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{self, RingChunk, claim_spare, header_of};
use crate::pool::chunk::Chunk;
use crate::pool::id::Place;

/// Longest payload: what the smallest chunk has room for.
const MOST: usize = (UNIT_BYTES - MSG_HEADER_BYTES) as usize;

/// A queue as an attempt knows it.
#[derive(Clone, Copy)]
struct Glimpse<'a> {
    queue: Queue,
    /// Words of its slot.
    fields: WordsRef<'a, { size_of::<MsgSlot>() / WORD_BYTES as usize }>,
}

macro_rules! load {
    ($glimpse:expr, $field:ident) => {
        $glimpse.fields.load(offset_of!(MsgSlot, $field), Ordering::Acquire)
    };
}

/// Who and when, where that changes: `$who` and `$when` are fields of the slot.
macro_rules! stamp {
    ($context:expr, $glimpse:expr, $who:ident, $when:ident) => {{
        let is_same = load!($glimpse, $who) as u32 == $context.process_ref().pack()
            && load!($glimpse, $when) as u32 == seconds_now();
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
    #[inline(always)]
    fn of(context: &'a Context, id: i32) -> Option<Self> {
        let Place { index, sequence } = Place::of(id)?;
        let slot = context.pool().layout().msg.at(index)?;
        let fields = structure!(context.pool().map(), slot, MsgSlot).ok()?;
        Some(Self { queue: Queue { index, sequence, slot }, fields })
    }

    #[inline(always)]
    fn ring(&self) -> RingWords<'a, { size_of::<MsgSlot>() / WORD_BYTES as usize }> {
        RingWords::of(self.fields, offset_of!(MsgSlot, ring), self.queue.ring())
    }

    /// As `fast::queue_is_current`.
    #[inline(always)]
    fn is_current(&self, context: &Context) -> bool {
        let at = offset_of!(MsgSlot, header) + offset_of!(ObjectHeader, state);
        let state = self.fields.load(at, Ordering::Acquire) as u32;
        state == self.queue.state_word(ObjectState::Live) && context.is_current()
    }
}

/// Sends a message of a type. `None`: it was not sent.
#[inline(always)]
pub(crate) fn send(context: &Context, id: i32, mtype: i64, message: &[u8]) -> Option<()> {
    if message.len() > MOST {
        return None;
    }
    let glimpse = Glimpse::of(context, id)?;
    let is_posix = load!(glimpse, most_messages) as u32 != 0;
    if !is_posix || message.len() > load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let (tail, last) = glimpse.ring().tail_at(context.ring_hints.tail(glimpse.queue.index))?;
    // After the look, as in `fast_send.rs`. No receiver sleeps.
    if load!(glimpse, mode) != QueueMode::Ring as u64 {
        return None;
    }
    if mtype > 1 && !ring::follows_last(map, layout, last, mtype).ok()? {
        return None;
    }
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(tail.at);
    map.will_read(at!(glimpse.queue, sender));
    match Inline::of(mtype, message) {
        Some(message) => send_inline(context, glimpse, tail, message)?,
        None => send_in_chunk(context, glimpse, tail, mtype, message)?,
    }
    context.ring_hints.note_tail(glimpse.queue.index, tail.index() + 1);
    context.send_backoff.note_sent();
    Some(())
}

#[inline(always)]
fn send_inline(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot,
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

#[inline(always)]
fn send_in_chunk(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot,
    mtype: i64,
    message: &[u8],
) -> Option<()> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let Glimpse { queue, .. } = glimpse;
    map.will_write(Chunk(tail.chunk()?).offset(layout).ok()?);
    let chunk = claim_spare(map, layout, queue.index, tail, context.me()).ok()??;
    crash_point("msg-fast-send", "claimed");
    let sent = fill(context, glimpse, tail, chunk, mtype, message);
    if sent.is_none() && chunk.is_ours(map).unwrap_or(false) {
        keep(context, chunk);
    }
    sent
}

#[inline(always)]
fn fill(
    context: &Context,
    glimpse: Glimpse<'_>,
    tail: RingSlot,
    chunk: RingChunk,
    mtype: i64,
    message: &[u8],
) -> Option<()> {
    let Glimpse { queue, .. } = glimpse;
    let map = context.pool().map();
    if !glimpse.is_current(context) || !chunk.is_ours(map).ok()? {
        return None;
    }
    chunk.write(map, queue.index, tail, mtype, message).ok()?;
    let stamp = stamp!(context, glimpse, sender, sent);
    // Not after the slot is filled: the line is the receiver's then.
    let next = tail.next_on_line(map, queue.ring()).ok()?;
    crash_point("msg-fast-send", "written");
    if !tail.fill(map, chunk.chunk.0, false).ok()? {
        return None;
    }
    crash_point("msg-fast-send", "sent");
    if let Some(Ok(at)) =
        next.and_then(RingSlot::chunk).map(|unit| Chunk(unit).offset(context.pool().layout()))
    {
        map.will_write(at);
    }
    renew(context, stamp.as_ref());
    crash_point("msg-fast-send", "stamped");
    Some(())
}

/// The message is sent, or taken: nothing that goes wrong here matters to the caller.
#[inline(always)]
fn renew(context: &Context, stamp: Option<&Stamp>) {
    if let Some(stamp) = stamp {
        let _ = stamp.renew(context.pool().map(), context.process_ref().pack());
    }
}

/// Takes the oldest message, for a receiver with `room` bytes. `is_ready` is asked, with the size,
/// whether there is a place for it; `deliver` gets type and payload. `None`: it was not taken.
#[inline(always)]
pub(crate) fn receive(
    context: &Context,
    id: i32,
    room: usize,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    let glimpse = Glimpse::of(context, id)?;
    let Glimpse { queue, .. } = glimpse;
    let is_posix = load!(glimpse, most_messages) as u32 != 0;
    if !is_posix || room < load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let head = glimpse.ring().head_at(context.ring_hints.head(queue.index))?;
    if !head.is_full() || says_list(load!(glimpse, mode)) {
        return None;
    }
    map.will_write(head.at);
    map.will_read(at!(queue, receiver));
    let header = header_of(map, layout, head).ok()?;
    let size = usize::try_from(header.size).ok().filter(|size| *size <= MOST.min(room))?;
    if !is_ready(size) {
        return None;
    }
    let mut copy = [0; MOST];
    read(map, layout, head, &mut copy[..size])?;
    if !glimpse.is_current(context) {
        return None;
    }
    let stamp = stamp!(context, glimpse, receiver, received);
    crash_point("msg-fast-receive", "copied");
    if !head.take(map).ok()? {
        return None;
    }
    context.ring_hints.note_head(queue.index, head.index() + 1);
    crash_point("msg-fast-receive", "taken");
    renew(context, stamp.as_ref());
    crash_point("msg-fast-receive", "stamped");
    deliver(header.mtype, &copy[..size]);
    Some(size)
}

/// Copies the payload of the oldest message out.
#[inline(always)]
fn read(map: &Map, layout: &Layout, head: RingSlot, into: &mut [u8]) -> Option<()> {
    match head.chunk() {
        Some(unit) => map.read(Chunk(unit).offset(layout).ok()? + MSG_HEADER_BYTES, into).ok(),
        None => {
            let payload = head.inline_payload(map).ok()?;
            into.copy_from_slice(payload.get(..into.len())?);
            Some(())
        }
    }
}
