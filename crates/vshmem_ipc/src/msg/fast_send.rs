//! msgsnd(2) through the ring: a compare-and-swap, without the lock.

use vshmem_mem::{Map, signals_handled, spin_hint};
use vshmem_sync::{
    Answerer, Fault, Inline, MessageRing, Room, Spot, Tail, crash_point, load_cell, load_value,
    load_word,
};
use vshmem_wire::{Cell, Layout, MSG_HEADER_BYTES, RING_SHORT_BYTES, RingReserve};

use crate::context::Context;
use crate::error::Verdict;
use crate::memory::{chunks, heap};
use crate::msg::awaited_types::{Awaited, says_list};
use crate::msg::fast::{MOST_ATTEMPTS, Stamp, queue_stands};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{self, Held, claim_parked, header_of};
use crate::msg::stock;
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, WRITE};
use crate::wait::waker_cpus;

/// The chunk that a slot notes is what the next message is sent in.
#[inline]
fn will_write_chunk(map: &Map, layout: &Layout, spot: Spot) {
    if let Some(Ok(at)) = spot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
}

/// How an attempt to send a message through the ring ended.
pub(crate) enum InRing {
    Sent,
    /// Somebody in line may wait for it.
    Awaited,
    /// This is not for the ring.
    Slow,
}

/// Sends a message through the ring. `refused`: nobody in line accepts it as long as this is the
/// cell of the mode. `signals_seen` is set when the call has begun to wait.
#[inline]
#[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
pub(crate) fn send_in_ring(
    context: &Context,
    queue: &Queue,
    kind: i64,
    text: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Verdict<InRing> {
    let mut held = None;
    let sent =
        try_to_send(context, queue, kind, text, no_wait, caller, refused, signals_seen, &mut held);
    if let Some(held) = held {
        keep(context, held);
    }
    sent
}

#[inline]
#[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
fn try_to_send(
    context: &Context,
    queue: &Queue,
    kind: i64,
    text: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<Held>,
) -> Verdict<InRing> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let is_large = text.len() as u64 > RING_SHORT_BYTES;
    let short = Inline::of(kind, text);
    let mut ring = MessageRing::at(queue.ring());
    for _ in 0..MOST_ATTEMPTS {
        ring.refresh(map)?;
        // After the look: whoever lies down later makes that one fail.
        let mode = load_word(map, at!(queue, mode))?;
        if says_list(mode) {
            return Ok(Ok(InRing::Slow));
        }
        if Awaited::in_mode(mode).has(kind)
            && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?))
        {
            return Ok(Ok(InRing::Awaited));
        }
        let spot = match ring.tail() {
            Tail::Free(spot) => spot,
            Tail::Full if await_room(context, &ring, signals_seen) => continue,
            Tail::Full => return Ok(Ok(InRing::Slow)),
            // Some receiver lies down just now; or somebody is about to use the list.
            Tail::Closed => {
                spin_hint();
                continue;
            }
        };
        // These lines are on the receiver's side, and come at once when they are asked for at once.
        map.will_write(spot.at);
        map.will_read(at!(queue, sender));
        will_write_chunk(map, layout, spot);
        // Also when there is one in hand: the slot is about to forget what it notes.
        if let Some(parked) = claim_parked(map, layout, queue.index, spot, context.me())? {
            crash_point("msg-fast-send", "claimed");
            // One that is in hand is large enough.
            match held {
                Some(_) => parked.free(map)?,
                None => *held = Some(parked),
            }
        }
        let reserve = load_value(map, at!(queue, tail))?;
        let inline = short.filter(|_| RingReserve::is_whole(reserve));
        if inline.is_none() && short.is_some() && context.reserve.is_due() {
            stock::stock_reserve(context, queue)?;
            continue;
        }
        let bytes = text.len() as u64;
        let chunk = match *held {
            _ if inline.is_some() => None,
            Some(chunk) if chunk.fits(map, layout, bytes)? => Some(chunk),
            small => {
                if let Some(small) = small {
                    *held = None;
                    small.free(map)?;
                }
                *held = enrol(context, queue, text.len())?;
                if held.is_none() {
                    return Ok(Ok(InRing::Slow));
                }
                continue;
            }
        };
        if (is_large || ring.may_hold_large()) && !has_room(context, queue, &ring, text.len())? {
            if !no_wait && await_bytes(context, queue, text.len(), signals_seen) {
                continue;
            }
            return Ok(Ok(InRing::Slow));
        }
        if !queue_stands(context, queue)? {
            return Ok(Ok(InRing::Slow));
        }
        if let Err(errno) = Permission::check(map, queue.slot, caller, WRITE)? {
            return Ok(Err(errno));
        }
        if let Some(chunk) = chunk {
            if !chunk.is_ours(map)? {
                *held = None;
                return Ok(Ok(InRing::Slow));
            }
            chunk.write(map, layout, queue.index, spot, kind, text)?;
        }
        let stamp = Stamp::before(map, at!(queue, sender), at!(queue, sent))?;
        crash_point("msg-fast-send", "written");
        let is_sent = match (inline, chunk) {
            (Some(message), _) => spot.fill_inline(map, message)?,
            (None, Some(chunk)) => spot.fill(map, chunk.chunk.0, is_large)?,
            (None, None) => false,
        };
        if is_sent {
            if inline.is_none() {
                *held = None;
            }
            crash_point("msg-fast-send", "sent");
            will_write_chunk(map, layout, ring.behind(spot));
            context.room.note_sent();
            stamp.renew(map, context.party().pack())?;
            crash_point("msg-fast-send", "stamped");
            return Ok(Ok(InRing::Sent));
        }
    }
    Ok(Ok(InRing::Slow))
}

/// Looks for a while for room in a ring that is full.
#[cold]
fn await_room(context: &Context, ring: &MessageRing, signals_seen: &mut Option<u32>) -> bool {
    if waker_cpus::answerer(context) == Answerer::OnThisCpu {
        return false;
    }
    // A handler that runs from now on interrupts the sleep that this call may come to.
    signals_seen.get_or_insert_with(signals_handled);
    context.room.look_for_room(|| ring.room(context.pool().map()))
}

/// Whether a queue allows a message of so many bytes beside those that `ring` holds.
///
/// The sizes that are read are those of its messages, or else of chunks whose messages have been
/// taken since: nobody writes into the chunk of a message in the ring. So if the slot of the tail
/// is filled then, there was room; also for what others allow: a change of the limit closes the
/// ring.
#[cold]
pub(crate) fn has_room(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing,
    bytes: usize,
) -> Result<bool, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut sum = bytes as u64;
    for spot in ring.messages() {
        sum = sum.saturating_add(header_of(map, layout, spot)?.size);
    }
    Ok(sum <= load_value(map, at!(queue, limit))?.into())
}

/// Looks for a while for room for so many bytes.
#[cold]
fn await_bytes(
    context: &Context,
    queue: &Queue,
    bytes: usize,
    signals_seen: &mut Option<u32>,
) -> bool {
    if waker_cpus::answerer(context) == Answerer::OnThisCpu {
        return false;
    }
    signals_seen.get_or_insert_with(signals_handled);
    let mut ring = MessageRing::at(queue.ring());
    context.room.look_for_room(|| {
        let read = ring.refresh(context.pool().map());
        let has_room = read.and_then(|()| has_room(context, queue, &ring, bytes));
        // What makes no sense is told by the caller's next attempt; so is a ring that was closed.
        let is_over = ring.tail() == Tail::Closed || has_room.unwrap_or(true);
        if is_over { Room::Plenty } else { Room::None }
    })
}

/// Looks for a while whether a queue that uses its list comes to use its ring again, as receivers
/// take what is in it.
pub(crate) fn await_ring(context: &Context, queue: &Queue, signals_seen: &mut Option<u32>) -> bool {
    let map = context.pool().map();
    let left = || load_value(map, at!(queue, count)).unwrap_or(0);
    // Who sleeps is woken by the message that is to be sent.
    let is_idle = load_value(map, at!(queue, receive_head)).is_ok_and(|first| first != 0);
    let mut least = left();
    let may_look = || waker_cpus::answerer(context) == Answerer::OnAnotherCpu;
    if least == 0 || is_idle || !context.room.may_look(may_look) {
        return false;
    }
    signals_seen.get_or_insert_with(signals_handled);
    let mut found = Room::None;
    context.room.look_for_ring(|| {
        if !ring::is_in_list(context, queue).unwrap_or(true) {
            return Room::Plenty;
        }
        let now = left();
        if now < least {
            found = Room::Some;
        }
        least = now;
        found
    })
}

/// A chunk from the heap, for a ring that has none to spare; `None` when there is none.
#[cold]
fn enrol(context: &Context, queue: &Queue, text: usize) -> Result<Option<Held>, Fault> {
    let Ok(seat) = context.seat() else { return Ok(None) };
    let Ok(chunk) = chunks::take(context, &context.desk_of(&seat), MSG_HEADER_BYTES + text as u64)
    else {
        return Ok(None);
    };
    Held::enrol(context.pool().map(), context.pool().layout(), queue.index, chunk).map(Some)
}

/// Keeps a chunk that was not used after all.
#[cold]
pub(crate) fn keep(context: &Context, held: Held) {
    // Without a seat it stays this client's until the end.
    if let Ok(seat) = context.seat() {
        let desk = context.desk_of(&seat);
        let _ = heap::release(context.pool(), &desk, &context.larder, context.me(), held.chunk);
    }
}
