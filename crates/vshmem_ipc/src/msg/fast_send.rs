//! msgsnd(2) through the ring: a compare-and-swap, without the lock.

use vshmem_mem::{Map, spin_hint};
use vshmem_sync::{
    Fault, Inline, MessageRing, RingSlot, Tail, crash_point, leave_lines, load_cell, load_value,
    load_word,
};
use vshmem_wire::{
    Cell, LONG_RING_SLOTS, Layout, MSG_HEADER_BYTES, Place, RING_SLOTS, RawCell, RingReserve,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::chunks;
use crate::msg::awaited_types::AwaitedTypes;
use crate::msg::fast::{MOST_ATTEMPTS, Stamp, queue_is_current};
use crate::msg::mode::{RingInUse, ring_base, ring_in_use, uses_ring};
use crate::msg::queue::{Queue, at};
use crate::msg::ring;
use crate::msg::ring_chunk::{RingChunk, claim_spare, keep};
use crate::msg::ring_room::{Held, await_bytes, await_room, is_large_in};
use crate::msg::stock;
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, WRITE};

/// The type of a POSIX queue's messages of priority 0, which may follow any other.
const LOWEST: i64 = 1;

/// The chunk that a slot notes is what the next message is sent in.
#[inline]
fn will_write_chunk<const N: usize>(map: &Map, layout: &Layout, ring_slot: RingSlot<N>) {
    if let Some(Ok(at)) = ring_slot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
}

/// How an attempt to send a message through the ring ended.
pub(crate) enum InRing {
    Sent,
    /// A receiver in the wait queue may wait for it.
    AwaitedTypes,
    /// There is a message in each slot.
    Full,
    /// This is not for the ring.
    Slow,
}

/// One call of msgsnd(2) or mq_send(3), after its queue has been looked up.
#[derive(Clone, Copy)]
pub(crate) struct SendCall<'a> {
    pub context: &'a Context,
    pub queue: &'a Queue,
    pub mtype: i64,
    pub payload: &'a [u8],
    pub no_wait: bool,
    pub caller: &'a dyn Caller,
}

/// Sends a message through the ring. `refused`: no thread in the wait queue accepts it as long as
/// this is the cell of the mode. `signals_seen` is set when the call has begun to wait.
#[inline(always)]
pub(crate) fn send_in_ring(
    call: &SendCall<'_>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<InRing, Failure> {
    let Some(ring) = ring_in_use(call.context.pool().map(), call.queue)? else {
        return Ok(InRing::Slow);
    };
    let mut held = None;
    let sent = match ring {
        RingInUse::Short => try_to_send::<RING_SLOTS>(call, refused, signals_seen, &mut held),
        RingInUse::Long => try_to_send_long(call, refused, signals_seen, &mut held),
    };
    if let Some(held) = held {
        keep(call.context, held);
    }
    sent
}

/// Apart from the other, whose frame on the stack stays small.
#[inline(never)]
fn try_to_send_long(
    call: &SendCall<'_>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<RingChunk>,
) -> Result<InRing, Failure> {
    let SendCall { context, queue, payload, .. } = *call;
    // Before it would be counted with all that is in the ring.
    let limit = load_value(context.pool().map(), at!(queue, limit))?.into();
    if is_large_in::<LONG_RING_SLOTS>(limit, payload.len() as u64) {
        return Ok(InRing::Slow);
    }
    try_to_send::<LONG_RING_SLOTS>(call, refused, signals_seen, held)
}

/// Whether a message of this type may be put behind what is in the ring: only queues of POSIX have
/// an order of their own.
#[inline(always)]
fn keeps_order<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    mtype: i64,
) -> Result<bool, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    Ok(mtype == LOWEST
        || queue.is_known_as_system_v(context)
        || ring::may_follow(map, layout, queue, ring_slot, mtype)?)
}

/// A message that fits into a slot of the ring itself: nothing lies in those of a long ring.
#[inline(always)]
pub(crate) fn inline_of<const N: usize>(mtype: i64, payload: &[u8]) -> Option<Inline> {
    if N == RING_SLOTS { Inline::of(mtype, payload) } else { None }
}

#[inline(always)]
fn try_to_send<const N: usize>(
    call: &SendCall<'_>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<RingChunk>,
) -> Result<InRing, Failure> {
    let (map, layout) = (call.context.pool().map(), call.context.pool().layout());
    let short = inline_of::<N>(call.mtype, call.payload);
    let mut ring = MessageRing::<N>::at(ring_base::<N>(map, layout, call.queue)?);
    for attempt in 0..MOST_ATTEMPTS {
        let place = match find_place(call, &mut ring, refused, signals_seen)? {
            Step::On(place) => place,
            Step::Again => continue,
            Step::End(done) => return Ok(done),
        };
        let message = match prepare(call, place.ring_slot, short, held)? {
            Step::On(message) => message,
            Step::Again => continue,
            Step::End(done) => return Ok(done),
        };
        let is_large = match count_bytes(call, &mut ring, &place, signals_seen)? {
            Step::On(is_large) => is_large,
            Step::Again => continue,
            Step::End(done) => return Ok(done),
        };
        if !queue_is_current(call.context, call.queue)? {
            return Ok(InRing::Slow);
        }
        Permission::check(map, call.queue.slot.header(), call.caller, WRITE)??;
        match fill(call, ring.base(), place.ring_slot, message, is_large, held)? {
            Step::On(()) => return Ok(InRing::Sent),
            Step::Again => leave_lines(attempt),
            Step::End(done) => return Ok(done),
        }
    }
    Ok(InRing::Slow)
}

/// How a step of an attempt to send ended.
enum Step<T> {
    /// The next step comes.
    On(T),
    /// Another attempt is worth it.
    Again,
    /// There is no other attempt.
    End(InRing),
}

/// The slot that the next message goes to.
struct FreeSlot<const N: usize> {
    ring_slot: RingSlot<N>,
    /// It was found without a look at the whole ring.
    is_near: bool,
}

/// What is put into a slot.
enum Message {
    Inline(Inline),
    InChunk(RingChunk),
}

/// Finds the slot for a message, if it may go through the ring.
#[inline(always)]
fn find_place<const N: usize>(
    call: &SendCall<'_>,
    ring: &mut MessageRing<N>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<Step<FreeSlot<N>>, Fault> {
    let SendCall { context, queue, mtype, .. } = *call;
    let map = context.pool().map();
    let near = find_tail::<N>(context, queue, ring.base())?;
    if near.is_none() {
        ring.refresh(map)?;
    }
    // Read after the ring: a receiver that goes to sleep after this closes the tail first, so that
    // the swap below fails.
    let mode = load_word(map, at!(queue, mode))?;
    if !uses_ring::<N>(mode) {
        return Ok(Step::End(InRing::Slow));
    }
    if AwaitedTypes::in_mode(mode).has(mtype)
        && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?))
    {
        return Ok(Step::End(InRing::AwaitedTypes));
    }
    let ring_slot = match near.map_or_else(|| ring.tail(), Tail::Free) {
        Tail::Free(ring_slot) => ring_slot,
        Tail::Full if await_room(context, ring, signals_seen) => return Ok(Step::Again),
        Tail::Full => return Ok(Step::End(InRing::Full)),
        // A receiver is just going to sleep, or another thread is about to use the list.
        Tail::Closed => {
            spin_hint();
            return Ok(Step::Again);
        }
    };
    if !keeps_order(context, queue, ring_slot, mtype)? {
        return Ok(Step::End(InRing::Slow));
    }
    Ok(Step::On(FreeSlot { ring_slot, is_near: near.is_some() }))
}

/// Decides where a message lies, and gets a chunk for it if there has to be one.
#[inline(always)]
fn prepare<const N: usize>(
    call: &SendCall<'_>,
    ring_slot: RingSlot<N>,
    short: Option<Inline>,
    held: &mut Option<RingChunk>,
) -> Result<Step<Message>, Fault> {
    let SendCall { context, queue, payload, .. } = *call;
    let (map, layout, me) = (context.pool().map(), context.pool().layout(), context.client_id());
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(ring_slot.at);
    map.will_read(at!(queue, sender));
    will_write_chunk(map, layout, ring_slot);
    // Also when there is one in hand: the slot is about to forget what it notes.
    if let Some(spare) = claim_spare(map, layout, queue.index, ring_slot, me)? {
        crash_point("msg-fast-send", "claimed");
        // One that is in hand is large enough.
        match held {
            Some(_) => spare.free(map)?,
            None => *held = Some(spare),
        }
    }
    if let Some(short) = short {
        if RingReserve::is_whole(load_value(map, at!(queue, tail))?) {
            return Ok(Step::On(Message::Inline(short)));
        }
        if context.reserve.is_due() {
            stock::stock_reserve(context, queue)?;
            return Ok(Step::Again);
        }
    }
    match *held {
        Some(chunk) if chunk.fits(map, layout, payload.len() as u64)? => {
            return Ok(Step::On(Message::InChunk(chunk)));
        }
        Some(small) => {
            *held = None;
            small.free(map)?;
        }
        None => {}
    }
    *held = take_ring_chunk(context, queue, payload.len())?;
    Ok(if held.is_some() { Step::Again } else { Step::End(InRing::Slow) })
}

/// Finds whether a queue has room for so many bytes, and whether the ring then holds a large
/// message.
#[inline(always)]
fn count_bytes<const N: usize>(
    call: &SendCall<'_>,
    ring: &mut MessageRing<N>,
    place: &FreeSlot<N>,
    signals_seen: &mut Option<u32>,
) -> Result<Step<bool>, Fault> {
    let SendCall { context, queue, payload, no_wait, .. } = *call;
    let (map, bytes) = (context.pool().map(), payload.len() as u64);
    // After the look as well: a change of the limit makes it fail.
    let limit = load_value(map, at!(queue, limit))?.into();
    let is_large = is_large_in::<N>(limit, bytes);
    let may_hold_large = !place.is_near && ring.may_hold_large();
    if !is_large && !may_hold_large {
        return Ok(Step::On(false));
    }
    if place.is_near {
        ring.refresh(map)?;
    }
    let held = Held::in_ring(context, ring, limit)?;
    if held.bytes.saturating_add(bytes) <= limit {
        return Ok(Step::On(is_large | held.is_large));
    }
    if !no_wait && await_bytes(context, queue, ring, payload.len(), signals_seen) {
        return Ok(Step::Again);
    }
    Ok(Step::End(InRing::Slow))
}

/// Puts a message into its slot, if no other thread has changed that since the look.
#[inline(always)]
fn fill<const N: usize>(
    call: &SendCall<'_>,
    base: Place<[RawCell; N]>,
    ring_slot: RingSlot<N>,
    message: Message,
    is_large: bool,
    held: &mut Option<RingChunk>,
) -> Result<Step<()>, Fault> {
    let SendCall { context, queue, mtype, payload, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Message::InChunk(chunk) = message {
        if !chunk.is_ours(map)? {
            *held = None;
            return Ok(Step::End(InRing::Slow));
        }
        chunk.write(map, queue.index, ring_slot, mtype, payload)?;
    }
    let stamp = Stamp::before(map, at!(queue, sender), at!(queue, sent))?;
    // Not after the slot is filled: the line is the receiver's then.
    let next = match message {
        Message::InChunk(_) => ring_slot.next_on_line(map, base)?,
        Message::Inline(_) => None,
    };
    crash_point("msg-fast-send", "written");
    let is_sent = match message {
        Message::Inline(inline) => ring_slot.fill_inline(map, inline, is_large)?,
        Message::InChunk(chunk) => ring_slot.fill(map, chunk.chunk.0, is_large)?,
    };
    if !is_sent {
        return Ok(Step::Again);
    }
    if let Message::InChunk(_) = message {
        *held = None;
    }
    crash_point("msg-fast-send", "sent");
    context.ring_hints.note_tail(queue.index, ring_slot.index() + 1);
    if let Some(next) = next {
        will_write_chunk(map, layout, next);
    }
    context.send_backoff.note_sent();
    stamp.renew(map, context.process_ref().pack())?;
    crash_point("msg-fast-send", "stamped");
    Ok(Step::On(()))
}

/// The tail, where this process expects it: behind the message that it sent last, or behind the one
/// that it took last, if it has taken any: a process that only sends does not ask for the lines at
/// the receivers' end.
#[inline(always)]
fn find_tail<const N: usize>(
    context: &Context,
    queue: &Queue,
    base: Place<[RawCell; N]>,
) -> Result<Option<RingSlot<N>>, Fault> {
    let (map, hints) = (context.pool().map(), &context.ring_hints);
    match RingSlot::tail_at(map, base, hints.tail(queue.index))? {
        None => match hints.known_head(queue.index) {
            Some(guess) => RingSlot::tail_at(map, base, guess),
            None => Ok(None),
        },
        found => Ok(found),
    }
}

/// A chunk from the heap, for a ring that has none to spare; `None` when there is none.
#[cold]
fn take_ring_chunk(
    context: &Context,
    queue: &Queue,
    payload: usize,
) -> Result<Option<RingChunk>, Fault> {
    let Ok(slot_guard) = context.slot_guard() else { return Ok(None) };
    let Ok(chunk) = chunks::take(
        context,
        &context.lock_context_of(&slot_guard),
        MSG_HEADER_BYTES + payload as u64,
    ) else {
        return Ok(None);
    };
    RingChunk::take_ring_chunk(context.pool().map(), context.pool().layout(), queue.index, chunk)
        .map(Some)
}
