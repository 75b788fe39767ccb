//! msgsnd(2) through the ring: a compare-and-swap, without the lock.

use vshmem_mem::{Map, signals_before_wait, spin_hint};
use vshmem_sync::{
    Fault, Inline, MessageRing, RingSlot, RingSpace, Tail, WakerCpu, crash_point, leave_lines,
    load_cell, load_value, load_word,
};
use vshmem_wire::{Cell, LONG_RING_SLOTS, Layout, MSG_HEADER_BYTES, RING_SLOTS, RingReserve};

use crate::context::Context;
use crate::error::ChangeResult;
use crate::memory::{chunks, heap};
use crate::msg::awaited_types::AwaitedTypes;
use crate::msg::fast::{MOST_ATTEMPTS, Stamp, queue_is_current};
use crate::msg::mode::{RingInUse, ring_base, ring_in_use, uses_ring};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{self, header_of};
use crate::msg::ring_chunk::{RingChunk, claim_spare};
use crate::msg::stock;
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, WRITE};
use crate::wait::waker_cpus;

/// The type of a POSIX queue's messages of priority 0, which may follow any other.
const LOWEST: i64 = 1;

/// A sender that waits for room looks at the tail itself once in so many times.
const LOOKS_AT_TAIL: u32 = 8;

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

/// Sends a message through the ring. `refused`: no thread in the wait queue accepts it as long as
/// this is the cell of the mode. `signals_seen` is set when the call has begun to wait.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
pub(crate) fn send_in_ring(
    context: &Context,
    queue: &Queue,
    mtype: i64,
    payload: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> ChangeResult<InRing> {
    let Some(ring) = ring_in_use(context.pool().map(), queue)? else {
        return Ok(Ok(InRing::Slow));
    };
    let mut held = None;
    let sent = match ring {
        RingInUse::Short => try_to_send::<RING_SLOTS>(
            context,
            queue,
            mtype,
            payload,
            no_wait,
            caller,
            refused,
            signals_seen,
            &mut held,
        ),
        RingInUse::Long => try_to_send_long(
            context,
            queue,
            mtype,
            payload,
            no_wait,
            caller,
            refused,
            signals_seen,
            &mut held,
        ),
    };
    if let Some(held) = held {
        keep(context, held);
    }
    sent
}

/// Apart from the other, whose frame on the stack stays small.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
fn try_to_send_long(
    context: &Context,
    queue: &Queue,
    mtype: i64,
    payload: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<RingChunk>,
) -> ChangeResult<InRing> {
    // Before it would be counted with all that is in the ring.
    let limit = load_value(context.pool().map(), at!(queue, limit))?.into();
    if is_large_in::<LONG_RING_SLOTS>(limit, payload.len() as u64) {
        return Ok(Ok(InRing::Slow));
    }
    try_to_send::<LONG_RING_SLOTS>(
        context,
        queue,
        mtype,
        payload,
        no_wait,
        caller,
        refused,
        signals_seen,
        held,
    )
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
#[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
fn try_to_send<const N: usize>(
    context: &Context,
    queue: &Queue,
    mtype: i64,
    payload: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<RingChunk>,
) -> ChangeResult<InRing> {
    let (map, layout, me) = (context.pool().map(), context.pool().layout(), context.client_id());
    let bytes = payload.len() as u64;
    let short = inline_of::<N>(mtype, payload);
    let mut ring = MessageRing::<N>::at(ring_base::<N>(map, layout, queue)?);
    for attempt in 0..MOST_ATTEMPTS {
        let near = find_tail::<N>(context, queue, ring.base())?;
        if near.is_none() {
            ring.refresh(map)?;
        }
        // After the look: the thread that goes to sleep later makes that one fail.
        let mode = load_word(map, at!(queue, mode))?;
        if !uses_ring::<N>(mode) {
            return Ok(Ok(InRing::Slow));
        }
        if AwaitedTypes::in_mode(mode).has(mtype)
            && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?))
        {
            return Ok(Ok(InRing::AwaitedTypes));
        }
        let tail = near.map_or_else(|| ring.tail(), Tail::Free);
        let ring_slot = match tail {
            Tail::Free(ring_slot) => ring_slot,
            Tail::Full if await_room(context, &ring, signals_seen) => continue,
            Tail::Full => return Ok(Ok(InRing::Full)),
            // Some receiver goes to sleep just now; or another thread is about to use the list.
            Tail::Closed => {
                spin_hint();
                continue;
            }
        };
        if !keeps_order(context, queue, ring_slot, mtype)? {
            return Ok(Ok(InRing::Slow));
        }
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
        let inline = match short {
            Some(_) if !RingReserve::is_whole(load_value(map, at!(queue, tail))?) => None,
            short => short,
        };
        if inline.is_none() && short.is_some() && context.reserve.is_due() {
            stock::stock_reserve(context, queue)?;
            continue;
        }
        let chunk = match *held {
            _ if inline.is_some() => None,
            Some(chunk) if chunk.fits(map, layout, bytes)? => Some(chunk),
            small => {
                if let Some(small) = small {
                    *held = None;
                    small.free(map)?;
                }
                *held = take_ring_chunk(context, queue, payload.len())?;
                if held.is_none() {
                    return Ok(Ok(InRing::Slow));
                }
                continue;
            }
        };
        // After the look as well: a change of the limit makes it fail.
        let limit = load_value(map, at!(queue, limit))?.into();
        let mut is_large = is_large_in::<N>(limit, bytes);
        let may_hold_large = near.is_none() && ring.may_hold_large();
        if is_large || may_hold_large {
            if near.is_some() {
                ring.refresh(map)?;
            }
            let held = Held::in_ring(context, &ring, limit)?;
            if held.bytes.saturating_add(bytes) > limit {
                if !no_wait && await_bytes(context, queue, &ring, payload.len(), signals_seen) {
                    continue;
                }
                return Ok(Ok(InRing::Slow));
            }
            is_large |= held.is_large;
        }
        if !queue_is_current(context, queue)? {
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
            chunk.write(map, queue.index, ring_slot, mtype, payload)?;
        }
        let stamp = Stamp::before(map, at!(queue, sender), at!(queue, sent))?;
        // Not after the slot is filled: the line is the receiver's then.
        let next = match chunk {
            Some(_) => ring_slot.next_on_line(map, ring.base())?,
            None => None,
        };
        crash_point("msg-fast-send", "written");
        let is_sent = match (inline, chunk) {
            (Some(message), _) => ring_slot.fill_inline(map, message, is_large)?,
            (None, Some(chunk)) => ring_slot.fill(map, chunk.chunk.0, is_large)?,
            (None, None) => false,
        };
        if is_sent {
            if inline.is_none() {
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
            return Ok(Ok(InRing::Sent));
        }
        leave_lines(attempt);
    }
    Ok(Ok(InRing::Slow))
}

/// The tail, where this process expects it: behind the message that it sent last, or behind the one
/// that it took last, if it has taken any: a process that only sends does not ask for the lines at
/// the receivers' end.
#[inline(always)]
fn find_tail<const N: usize>(
    context: &Context,
    queue: &Queue,
    base: u64,
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

/// Looks for a while for room in a ring that is full.
#[cold]
fn await_room<const N: usize>(
    context: &Context,
    ring: &MessageRing<N>,
    signals_seen: &mut Option<u32>,
) -> bool {
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    // A handler that runs from now on interrupts the sleep that this call may come to.
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut looks = 0_u32;
    context.send_backoff.look_for_room(|| {
        looks += 1;
        ring.room(context.pool().map(), looks.is_multiple_of(LOOKS_AT_TAIL))
    })
}

/// Whether there may be no room for a message although a slot is free, in a queue with this limit:
/// its bytes are counted.
#[inline]
pub(crate) fn is_large_in<const N: usize>(limit: u64, bytes: u64) -> bool {
    bytes > limit / N as u64
}

/// What a ring holds.
///
/// The sizes that are read are those of its messages, or else of chunks whose messages have been
/// taken since: no thread writes into the chunk of a message in the ring. So if the slot of the
/// tail is filled then, there was room; also for what others allow: a change of the limit closes
/// the ring.
struct Held {
    bytes: u64,
    /// One of its messages is large, if this is the limit.
    is_large: bool,
}

impl Held {
    #[cold]
    fn in_ring<const N: usize>(
        context: &Context,
        ring: &MessageRing<N>,
        limit: u64,
    ) -> Result<Self, Fault> {
        let (map, layout) = (context.pool().map(), context.pool().layout());
        let mut held = Self { bytes: 0, is_large: false };
        for ring_slot in ring.messages() {
            let size = header_of(map, layout, ring_slot)?.size;
            held.bytes = held.bytes.saturating_add(size);
            held.is_large |= is_large_in::<N>(limit, size);
        }
        Ok(held)
    }
}

/// Whether a queue allows a message of so many bytes beside those that `ring` holds.
#[cold]
pub(crate) fn has_room<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    bytes: usize,
) -> Result<bool, Fault> {
    let limit = load_value(context.pool().map(), at!(queue, limit))?.into();
    Ok(Held::in_ring(context, ring, limit)?.bytes.saturating_add(bytes as u64) <= limit)
}

/// Looks for a while for room for so many bytes.
#[cold]
fn await_bytes<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    bytes: usize,
    signals_seen: &mut Option<u32>,
) -> bool {
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut ring = MessageRing::<N>::at(ring.base());
    context.send_backoff.look_for_room(|| {
        let read = ring.refresh(context.pool().map());
        let has_room = read.and_then(|()| has_room(context, queue, &ring, bytes));
        // The caller's next attempt reports what is invalid; so is a ring that was closed.
        let is_over = ring.tail() == Tail::Closed || has_room.unwrap_or(true);
        if is_over { RingSpace::Plenty } else { RingSpace::None }
    })
}

/// Looks for a while whether a queue that uses its list comes to use its ring again, as receivers
/// take what is in it.
pub(crate) fn await_ring(context: &Context, queue: &Queue, signals_seen: &mut Option<u32>) -> bool {
    let map = context.pool().map();
    let left = || load_value(map, at!(queue, count)).unwrap_or(0);
    // A thread that sleeps is woken by the message that is to be sent.
    let is_idle = load_value(map, at!(queue, receive_head)).is_ok_and(|first| first != 0);
    let mut least = left();
    let may_look = || waker_cpus::waker_cpu(context) == WakerCpu::OnAnotherCpu;
    if least == 0 || is_idle || !context.send_backoff.may_look(may_look) {
        return false;
    }
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut found = RingSpace::None;
    context.send_backoff.look_for_ring(|| {
        if !ring::is_in_list(context, queue).unwrap_or(true) {
            return RingSpace::Plenty;
        }
        let now = left();
        if now < least {
            found = RingSpace::Some;
        }
        least = now;
        found
    })
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

/// Keeps a chunk that was not used after all.
#[cold]
pub(crate) fn keep(context: &Context, held: RingChunk) {
    // Without a slot guard it stays this client's until the end.
    if let Ok(slot_guard) = context.slot_guard() {
        let lock_context = context.lock_context_of(&slot_guard);
        let _ = heap::release(
            context.pool(),
            &lock_context,
            &context.chunk_cache,
            context.client_id(),
            held.chunk,
        );
    }
}
