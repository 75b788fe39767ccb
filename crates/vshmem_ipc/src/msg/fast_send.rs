//! msgsnd(2) through the ring: a compare-and-swap, without the lock.

use rustix::io::Errno;
use vshmem_mem::{Map, signals_handled, spin_hint};
use vshmem_sync::{
    Fault, Inline, MessageRing, RingSlot, RingSpace, Tail, WakerCpu, crash_point, load_cell,
    load_value, load_word,
};
use vshmem_wire::{Cell, Layout, MSG_HEADER_BYTES, RING_SHORT_BYTES, RingReserve};

use crate::context::Context;
use crate::error::Verdict;
use crate::memory::{chunks, heap};
use crate::msg::awaited_types::{AwaitedTypes, says_list};
use crate::msg::fast::{MOST_ATTEMPTS, Stamp, queue_is_current};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{self, RingChunk, claim_spare, header_of};
use crate::msg::stock;
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, WRITE};
use crate::wait::waker_cpus;

/// A sender that waits for room looks at the tail itself once in so many times.
const LOOKS_AT_TAIL: u32 = 8;

/// The chunk that a slot notes is what the next message is sent in.
#[inline]
fn will_write_chunk(map: &Map, layout: &Layout, ring_slot: RingSlot) {
    if let Some(Ok(at)) = ring_slot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
}

/// How an attempt to send a message through the ring ended.
pub(crate) enum InRing {
    Sent,
    /// A receiver in the wait queue may wait for it.
    AwaitedTypes,
    /// This is not for the ring.
    Slow,
}

/// Why an attempt has not sent the message.
enum Stop {
    /// It is worth another attempt.
    Again,
    /// No attempt will.
    Ended(InRing),
    Refused(Errno),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A message on its way into the ring: one call's worth of state.
struct Sending<'a> {
    context: &'a Context,
    queue: &'a Queue,
    mtype: i64,
    payload: &'a [u8],
    no_wait: bool,
    caller: &'a dyn Caller,
    refused: Option<Cell>,
    signals_seen: &'a mut Option<u32>,
    /// A chunk that is large enough, if there is one in hand.
    held: Option<RingChunk>,
}

/// Sends a message through the ring. `refused`: no thread in the wait queue accepts it as long as
/// this is the cell of the mode. `signals_seen` is set when the call has begun to wait.
#[inline]
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
) -> Verdict<InRing> {
    let mut sending = Sending {
        context,
        queue,
        mtype,
        payload,
        no_wait,
        caller,
        refused,
        signals_seen,
        held: None,
    };
    let mut ring = MessageRing::at(queue.ring());
    let mut sent = Ok(Ok(InRing::Slow));
    for _ in 0..MOST_ATTEMPTS {
        let stop = match try_to_send(&mut sending, &mut ring) {
            Ok(()) => Stop::Ended(InRing::Sent),
            Err(stop) => stop,
        };
        sent = match stop {
            Stop::Again => continue,
            Stop::Ended(how) => Ok(Ok(how)),
            Stop::Refused(errno) => Ok(Err(errno)),
            Stop::Fault(fault) => Err(fault),
        };
        break;
    }
    if let Some(held) = sending.held {
        keep(context, held);
    }
    sent
}

#[inline]
fn try_to_send(sending: &mut Sending<'_>, ring: &mut MessageRing) -> Result<(), Stop> {
    ring.refresh(sending.context.pool().map()).map_err(Stop::Fault)?;
    let ring_slot = free_slot(sending, ring)?;
    claim_noted(sending, ring_slot)?;
    let inline = place_for(sending)?;
    check_room(sending, ring)?;
    check_rights(sending)?;
    put(sending, ring, ring_slot, inline)
}

/// The slot of the tail, if no thread in the wait queue may wait for the message.
#[inline]
fn free_slot(sending: &mut Sending<'_>, ring: &MessageRing) -> Result<RingSlot, Stop> {
    let Sending { context, queue, mtype, refused, .. } = *sending;
    let map = context.pool().map();
    // After the look: the thread that goes to sleep later makes that one fail.
    let mode = load_word(map, at!(queue, mode))?;
    if says_list(mode) {
        return Err(Stop::Ended(InRing::Slow));
    }
    if AwaitedTypes::in_mode(mode).has(mtype)
        && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?))
    {
        return Err(Stop::Ended(InRing::AwaitedTypes));
    }
    match ring.tail() {
        Tail::Free(ring_slot) => Ok(ring_slot),
        Tail::Full if await_room(context, ring, sending.signals_seen) => Err(Stop::Again),
        Tail::Full => Err(Stop::Ended(InRing::Slow)),
        // Some receiver goes to sleep just now; or another thread is about to use the list.
        Tail::Closed => {
            spin_hint();
            Err(Stop::Again)
        }
    }
}

/// Claims the chunk that a slot notes, also when there is one in hand: the slot is about to forget
/// it.
#[inline]
fn claim_noted(sending: &mut Sending<'_>, ring_slot: RingSlot) -> Result<(), Stop> {
    let Sending { context, queue, .. } = *sending;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(ring_slot.at);
    map.will_read(at!(queue, sender));
    will_write_chunk(map, layout, ring_slot);
    if let Some(spare) = claim_spare(map, layout, queue.index, ring_slot, context.me())? {
        crash_point("msg-fast-send", "claimed");
        // One that is in hand is large enough.
        match sending.held {
            Some(_) => spare.free(map)?,
            None => sending.held = Some(spare),
        }
    }
    Ok(())
}

/// What the message is to be sent in: the slot itself (`Some`), or the chunk in hand.
#[inline]
fn place_for(sending: &mut Sending<'_>) -> Result<Option<Inline>, Stop> {
    let Sending { context, queue, mtype, payload, .. } = *sending;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Some(message) = Inline::of(mtype, payload) {
        if RingReserve::is_whole(load_value(map, at!(queue, tail))?) {
            return Ok(Some(message));
        }
        if context.reserve.is_due() {
            stock::stock_reserve(context, queue)?;
            return Err(Stop::Again);
        }
    }
    if let Some(chunk) = &sending.held
        && chunk.fits(map, layout, payload.len() as u64)?
    {
        return Ok(None);
    }
    replace_held(sending)
}

/// Takes a chunk that is large enough from the heap, instead of the one in hand.
#[cold]
fn replace_held(sending: &mut Sending<'_>) -> Result<Option<Inline>, Stop> {
    let Sending { context, queue, payload, .. } = *sending;
    if let Some(small) = sending.held.take() {
        small.free(context.pool().map())?;
    }
    sending.held = take_ring_chunk(context, queue, payload.len())?;
    Err(if sending.held.is_some() { Stop::Again } else { Stop::Ended(InRing::Slow) })
}

/// Whether the queue allows the bytes, where a free slot alone does not say so.
#[inline]
fn check_room(sending: &mut Sending<'_>, ring: &MessageRing) -> Result<(), Stop> {
    let Sending { context, queue, payload, no_wait, .. } = *sending;
    let bytes = payload.len();
    let may_lack = bytes as u64 > RING_SHORT_BYTES || ring.may_hold_large();
    if !may_lack || has_room(context, queue, ring, bytes)? {
        return Ok(());
    }
    let is_there = !no_wait && await_bytes(context, queue, bytes, sending.signals_seen);
    Err(if is_there { Stop::Again } else { Stop::Ended(InRing::Slow) })
}

#[inline]
fn check_rights(sending: &Sending<'_>) -> Result<(), Stop> {
    let Sending { context, queue, caller, .. } = *sending;
    if !queue_is_current(context, queue)? {
        return Err(Stop::Ended(InRing::Slow));
    }
    Permission::check(context.pool().map(), queue.slot, caller, WRITE)?.map_err(Stop::Refused)
}

/// Writes the message and puts it into the slot: in the slot itself, or in the chunk in hand.
#[inline]
fn put(
    sending: &mut Sending<'_>,
    ring: &MessageRing,
    ring_slot: RingSlot,
    inline: Option<Inline>,
) -> Result<(), Stop> {
    let Sending { context, queue, mtype, payload, .. } = *sending;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    // By reference: a copy of words that were just stored in parts waits for them.
    let chunk = if inline.is_none() { sending.held.as_ref() } else { None };
    if let Some(chunk) = chunk {
        if !chunk.is_ours(map)? {
            sending.held = None;
            return Err(Stop::Ended(InRing::Slow));
        }
        chunk.write(map, layout, queue.index, ring_slot, mtype, payload)?;
    }
    let stamp = Stamp::before(map, at!(queue, sender), at!(queue, sent))?;
    crash_point("msg-fast-send", "written");
    let is_large = payload.len() as u64 > RING_SHORT_BYTES;
    let is_sent = match (inline, chunk) {
        (Some(message), _) => ring_slot.fill_inline(map, message)?,
        (None, Some(chunk)) => ring_slot.fill(map, chunk.chunk.0, is_large)?,
        (None, None) => false,
    };
    if !is_sent {
        return Err(Stop::Again);
    }
    if inline.is_none() {
        sending.held = None;
    }
    crash_point("msg-fast-send", "sent");
    will_write_chunk(map, layout, ring.behind(ring_slot));
    context.send_backoff.note_sent();
    stamp.renew(map, context.process_ref().pack())?;
    crash_point("msg-fast-send", "stamped");
    Ok(())
}

/// Looks for a while for room in a ring that is full.
#[cold]
fn await_room(context: &Context, ring: &MessageRing, signals_seen: &mut Option<u32>) -> bool {
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    // A handler that runs from now on interrupts the sleep that this call may come to.
    signals_seen.get_or_insert_with(signals_handled);
    let mut looks = 0_u32;
    context.send_backoff.look_for_room(|| {
        looks += 1;
        ring.room(context.pool().map(), looks.is_multiple_of(LOOKS_AT_TAIL))
    })
}

/// Whether a queue allows a message of so many bytes beside those that `ring` holds.
///
/// The sizes that are read are those of its messages, or else of chunks whose messages have been
/// taken since: no thread writes into the chunk of a message in the ring. So if the slot of the
/// tail is filled then, there was room; also for what others allow: a change of the limit closes
/// the ring.
#[cold]
pub(crate) fn has_room(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing,
    bytes: usize,
) -> Result<bool, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut sum = bytes as u64;
    for ring_slot in ring.messages() {
        sum = sum.saturating_add(header_of(map, layout, ring_slot)?.size);
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
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    signals_seen.get_or_insert_with(signals_handled);
    let mut ring = MessageRing::at(queue.ring());
    context.send_backoff.look_for_room(|| {
        let read = ring.refresh(context.pool().map());
        let has_room = read.and_then(|()| has_room(context, queue, &ring, bytes));
        // What is invalid is told by the caller's next attempt; so is a ring that was closed.
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
    signals_seen.get_or_insert_with(signals_handled);
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
            context.me(),
            held.chunk,
        );
    }
}
