//! The way of a message into a ring: a compare-and-swap, without the lock.
//!
//! # The short way
//! Usually two slots beside each other show where the tail is, and nothing stands in the way: no
//! receiver sleeps that may wait for the message, and the slot keeps a chunk for it or takes it
//! itself ([`send_short`]). That is one attempt without a loop: whatever is unusual ends it, and
//! nothing has happened then. So none of its state has to outlive a turn of a loop, and the
//! compiler keeps it in registers. libc's symbols begin with it, for the ring in the queue's slot.
//!
//! # The whole ring
//! [`send_in_ring`] is a loop over the short way, for either ring. After an attempt that has failed
//! it looks at all words of the ring ([`look_and_send`]): it waits for room, gets the chunk that is
//! missing, counts bytes where there may be too many. If the message is not for the ring, it is one
//! for a receiver that sleeps (`wait_with_ring.rs`), or it goes to the list (`send.rs`).

use vshmem_mem::spin_hint;
use vshmem_sync::{
    Fault, Inline, MessageRing, RingSlot, RingWords, Tail, crash_point, leave_lines, load_cell,
    load_value, load_word,
};
use vshmem_wire::{Cell, LONG_RING_SLOTS, Place, RING_SLOTS, RawCell, RingReserve};

use crate::context::Context;
use crate::error::Failure;
use crate::msg::fast_receive::MEDIUM_COPY;
use crate::msg::glimpse::{Glimpse, MOST_ATTEMPTS, load, stamp};
use crate::msg::mode::{AwaitedTypes, RingInUse, is_large_in, uses_ring};
use crate::msg::queue::{Queue, at};
use crate::msg::ring;
use crate::msg::ring_chunk::{RingChunk, hold_spare, keep, take_ring_chunk, will_write_chunk};
use crate::msg::ring_room::{Held, await_bytes, await_room};
use crate::msg::stock;
use crate::registry::permission::{Caller, Permission, Superuser, WRITE};

/// Longest payload that is sent at once: where a slot keeps the chunk for the next message.
pub const SHORT_BYTES: usize = MEDIUM_COPY;

/// The type of a POSIX queue's messages of priority 0, which may follow any other.
const LOWEST: i64 = 1;

/// One call of msgsnd(2) or mq_send(3).
pub(crate) struct SendCall<'a, C: Caller + ?Sized = dyn Caller + 'a> {
    pub context: &'a Context,
    pub glimpse: Glimpse<'a>,
    pub mtype: i64,
    pub payload: &'a [u8],
    pub no_wait: bool,
    pub caller: &'a C,
}

/// msgsnd(2), if the short way is open. `None`: the message was not sent.
#[inline(always)]
pub(crate) fn msgsnd_at_once(
    context: &Context,
    id: i32,
    mtype: i64,
    payload: &[u8],
    caller: &impl Caller,
) -> Option<()> {
    let is_short = payload.len() <= SHORT_BYTES.min(context.pool().geometry().msgmax as usize);
    if !is_short || mtype < 1 {
        return None;
    }
    let glimpse = Glimpse::of_system_v(context, id)?;
    send_at_once(&SendCall { context, glimpse, mtype, payload, no_wait: true, caller })
}

/// mq_send(3) with the type that stands for a priority, if the short way is open. `None`: the
/// message was not sent.
#[inline(always)]
pub(crate) fn mq_send_at_once(
    context: &Context,
    id: i32,
    mtype: i64,
    payload: &[u8],
) -> Option<()> {
    if payload.len() > SHORT_BYTES {
        return None;
    }
    let glimpse = Glimpse::of_posix(context, id)?;
    if payload.len() > load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    // The access was checked when the queue was opened.
    let caller = &Superuser;
    send_at_once(&SendCall { context, glimpse, mtype, payload, no_wait: true, caller })
}

#[inline(always)]
fn send_at_once(call: &SendCall<'_, impl Caller>) -> Option<()> {
    let mut held = None;
    let sent = send_short(call, call.glimpse.ring(), &mut held);
    if sent.is_none()
        && let Some(held) = held
    {
        keep(call.context, held);
    }
    sent
}

/// How an attempt to send a message through the ring ended.
pub(crate) enum InRing {
    Sent,
    /// A receiver in the wait queue may wait for it.
    Awaited,
    /// There is a message in each slot.
    Full,
    /// This is not for the ring.
    Slow,
}

/// Sends a message through the ring that the queue uses. `refused`: no thread in the wait queue
/// accepts it as long as this is the cell of the mode. `signals_seen` is set when the call has
/// begun to wait.
#[inline(always)]
pub(crate) fn send_in_ring(
    call: &SendCall<'_>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<InRing, Failure> {
    match RingInUse::of(load!(call.glimpse, mode)) {
        None => Ok(InRing::Slow),
        Some(RingInUse::Short) => send_through(call, call.glimpse.ring(), refused, signals_seen),
        Some(RingInUse::Long) => send_through_long(call, refused, signals_seen),
    }
}

/// Apart from the other, whose frame on the stack stays small.
#[inline(never)]
fn send_through_long(
    call: &SendCall<'_>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<InRing, Failure> {
    // Before it would be counted with all that is in the ring.
    let limit = u64::from(load!(call.glimpse, limit) as u32);
    if is_large_in::<LONG_RING_SLOTS>(limit, call.payload.len() as u64) {
        return Ok(InRing::Slow);
    }
    send_through(call, call.glimpse.long_ring(call.context)?, refused, signals_seen)
}

#[inline(always)]
fn send_through<const WORDS: usize, const N: usize>(
    call: &SendCall<'_>,
    ring: RingWords<'_, WORDS, N>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<InRing, Failure> {
    let mut held = None;
    let mut sent = Ok(InRing::Slow);
    for attempt in 0..MOST_ATTEMPTS {
        let stop = match send_short(call, ring, &mut held) {
            Some(()) => InRing::Sent.into(),
            None => {
                let base = ring.base();
                let looked = look_and_send::<N>(call, base, refused, signals_seen, &mut held);
                looked.map_or_else(|stop| stop, |()| InRing::Sent.into())
            }
        };
        match stop {
            Stop::Again => {}
            Stop::Lost => leave_lines(attempt),
            Stop::End(end) => {
                sent = end;
                break;
            }
        }
    }
    if let Some(held) = held {
        keep(call.context, held);
    }
    sent
}

/// The short way: one attempt at the tail that two slots show. `held`: a chunk in hand, before and
/// after. `None`: the message was not sent.
#[inline(always)]
fn send_short<const WORDS: usize, const N: usize>(
    call: &SendCall<'_, impl Caller + ?Sized>,
    ring: RingWords<'_, WORDS, N>,
    held: &mut Option<RingChunk>,
) -> Option<()> {
    let SendCall { context, ref glimpse, mtype, payload, caller, .. } = *call;
    let (map, layout, queue) = (context.pool().map(), context.pool().layout(), &glimpse.queue);
    let (tail, last) = find_tail(context, queue, ring)?;
    // Read after the ring: a receiver that goes to sleep after this closes the tail first, so that
    // the swap fails. Usually none sleeps.
    let mode = load!(glimpse, mode);
    let is_unawaited = mode == RingInUse::of_slots::<N>().mode() as u64
        || uses_ring::<N>(mode) && !AwaitedTypes::in_mode(mode).has(mtype);
    if !is_unawaited {
        return None;
    }
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(tail.at);
    map.will_read(at!(queue, sender));
    if glimpse.is_posix {
        if mtype > LOWEST && !ring::follows_last(map, layout, last, mtype).ok()? {
            return None;
        }
    } else {
        // None in the ring is large, or this would not be known to be the tail.
        if is_large_in::<N>(load!(glimpse, limit) as u32 as u64, payload.len() as u64) {
            return None;
        }
        Permission::check(map, queue.slot.header(), caller, WRITE).ok()?.ok()?;
    }
    let sent = fill_short(call, tail, held);
    if sent.is_none() {
        leave_if_lost(context, tail);
    }
    sent
}

/// Fills the tail of the short way, with a chunk that it notes if there has to be one.
#[inline(always)]
fn fill_short<const N: usize>(
    call: &SendCall<'_, impl Caller + ?Sized>,
    tail: RingSlot<N>,
    held: &mut Option<RingChunk>,
) -> Option<()> {
    let SendCall { context, ref glimpse, mtype, payload, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Some(inline) = inline_of::<N>(mtype, payload) {
        let is_whole = RingReserve::is_whole(load!(glimpse, tail_or_reserve) as u32);
        // A chunk that the slot notes would be forgotten.
        if !is_whole || tail.chunk().is_some() || !glimpse.is_current(context) {
            return None;
        }
        return put(call, tail, Message::Inline(inline), false).ok()?.then_some(());
    }
    will_write_chunk(map, layout, tail);
    hold_spare(context, &glimpse.queue, tail, held).ok()?;
    if payload.len() > SHORT_BYTES && held.is_none() {
        // No slot keeps a chunk for it.
        *held = take_ring_chunk(context, &glimpse.queue, payload.len()).ok()?;
    }
    let chunk = (*held)?;
    if !chunk.fits(map, layout, payload.len() as u64).ok()? {
        return None;
    }
    if !glimpse.is_current(context) || !chunk.is_ours(map).ok()? {
        return None;
    }
    if !put(call, tail, Message::InChunk(chunk), false).ok()? {
        return None;
    }
    *held = None;
    Some(())
}

/// The tail, where this process expects it, and the slot before it: behind the message that it sent
/// last, or behind the one that it took last, if it has taken any: a process that only sends does
/// not ask for the lines at the receivers' end.
#[inline(always)]
fn find_tail<const WORDS: usize, const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: RingWords<'_, WORDS, N>,
) -> Option<(RingSlot<N>, RingSlot<N>)> {
    let hints = &context.ring_hints;
    match ring.tail_at(hints.tail(queue.index)) {
        None => ring.tail_at(hints.known_head(queue.index)?),
        found => found,
    }
}

/// After an attempt that has failed: if another thread was faster, it has the ring's lines now.
#[cold]
fn leave_if_lost<const N: usize>(context: &Context, ring_slot: RingSlot<N>) {
    if ring_slot.has_moved(context.pool().map()) {
        leave_lines(0);
    }
}

/// A message that fits into a slot of the ring itself: nothing lies in those of a long ring.
#[inline(always)]
fn inline_of<const N: usize>(mtype: i64, payload: &[u8]) -> Option<Inline> {
    if N == RING_SLOTS { Inline::of(mtype, payload) } else { None }
}

/// What is put into a slot.
#[derive(Clone, Copy)]
enum Message {
    Inline(Inline),
    InChunk(RingChunk),
}

/// Puts a message into its slot, if no other thread has changed that since the look; says whether
/// that has happened. `is_large`: its bytes or those of another in the ring have to be counted.
#[inline(always)]
fn put<const N: usize>(
    call: &SendCall<'_, impl Caller + ?Sized>,
    tail: RingSlot<N>,
    message: Message,
    is_large: bool,
) -> Result<bool, Fault> {
    let SendCall { context, ref glimpse, mtype, payload, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Message::InChunk(chunk) = message {
        chunk.write(map, glimpse.queue.index, tail, mtype, payload)?;
    }
    let stamp = stamp!(context, glimpse, sender, sent);
    // Not after the slot is filled: the line is the receiver's then.
    let next = match message {
        Message::InChunk(_) => tail.next_on_line(map)?,
        Message::Inline(_) => None,
    };
    crash_point("msg-fast-send", "written");
    let is_sent = match message {
        Message::Inline(inline) => tail.fill_inline(map, inline, is_large)?,
        Message::InChunk(chunk) => tail.fill(map, chunk.chunk.0, is_large)?,
    };
    if !is_sent {
        return Ok(false);
    }
    crash_point("msg-fast-send", "sent");
    if let Some(next) = next {
        will_write_chunk(map, layout, next);
    }
    if let Some(stamp) = stamp {
        stamp.renew(context);
    }
    crash_point("msg-fast-send", "stamped");
    context.ring_hints.note_tail(glimpse.queue.index, tail.index() + 1);
    context.send_backoff.note_sent();
    Ok(true)
}

/// Why an attempt with a look at all words has not sent the message.
enum Stop {
    /// Another attempt is worth it.
    Again,
    /// The same: another thread was faster, and has the ring's lines now.
    Lost,
    /// There is no other attempt.
    End(Result<InRing, Failure>),
}

impl<E: Into<Failure>> From<E> for Stop {
    #[inline]
    fn from(failure: E) -> Self {
        Self::End(Err(failure.into()))
    }
}

impl From<InRing> for Stop {
    #[inline]
    fn from(end: InRing) -> Self {
        Self::End(Ok(end))
    }
}

/// One attempt at the tail that all words of the ring show; or else something is done about what
/// stands in its way.
#[inline(never)]
fn look_and_send<const N: usize>(
    call: &SendCall<'_>,
    base: Place<[RawCell; N]>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
    held: &mut Option<RingChunk>,
) -> Result<(), Stop> {
    let SendCall { context, ref glimpse, caller, .. } = *call;
    let map = context.pool().map();
    // A message for a receiver that sleeps takes no lines from those who use the ring.
    check_mode::<N>(call, refused)?;
    let mut ring = MessageRing::<N>::at(base);
    ring.refresh(map)?;
    let tail = find_place(call, &ring, refused, signals_seen)?;
    let message = prepare(call, tail, held)?;
    let is_large = count_bytes(call, &ring, signals_seen)?;
    if !glimpse.is_current(context) {
        return Err(InRing::Slow.into());
    }
    Permission::check(map, glimpse.queue.slot.header(), caller, WRITE)??;
    if let Message::InChunk(chunk) = message
        && !chunk.is_ours(map)?
    {
        *held = None;
        return Err(InRing::Slow.into());
    }
    if !put(call, tail, message, is_large)? {
        return Err(Stop::Lost);
    }
    if let Message::InChunk(_) = message {
        *held = None;
    }
    Ok(())
}

/// Whether a message may go through the ring, by the mode.
fn check_mode<const N: usize>(call: &SendCall<'_>, refused: Option<Cell>) -> Result<(), Stop> {
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, mtype, .. } = *call;
    let map = context.pool().map();
    let mode = load_word(map, at!(queue, mode))?;
    if !uses_ring::<N>(mode) {
        return Err(InRing::Slow.into());
    }
    let is_awaited = AwaitedTypes::in_mode(mode).has(mtype);
    if is_awaited && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?)) {
        return Err(InRing::Awaited.into());
    }
    Ok(())
}

/// Finds the slot for a message, if it may go through the ring.
fn find_place<const N: usize>(
    call: &SendCall<'_>,
    ring: &MessageRing<N>,
    refused: Option<Cell>,
    signals_seen: &mut Option<u32>,
) -> Result<RingSlot<N>, Stop> {
    let SendCall { context, glimpse: Glimpse { is_posix, .. }, mtype, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    // After the ring, as on the short way.
    check_mode::<N>(call, refused)?;
    let tail = match ring.tail() {
        Tail::Free(tail) => tail,
        Tail::Full if await_room(context, ring, signals_seen) => return Err(Stop::Again),
        Tail::Full => return Err(InRing::Full.into()),
        // A receiver is just going to sleep, or another thread is about to use the list.
        Tail::Closed => {
            spin_hint();
            return Err(Stop::Again);
        }
    };
    // Only queues of POSIX have an order of their own.
    if mtype > LOWEST && is_posix && !ring::may_follow(map, layout, tail, mtype)? {
        return Err(InRing::Slow.into());
    }
    Ok(tail)
}

/// Decides where a message lies, and gets a chunk for it if there has to be one.
fn prepare<const N: usize>(
    call: &SendCall<'_>,
    tail: RingSlot<N>,
    held: &mut Option<RingChunk>,
) -> Result<Message, Stop> {
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, mtype, payload, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    map.will_write(tail.at);
    map.will_read(at!(queue, sender));
    will_write_chunk(map, layout, tail);
    // Also when there is one in hand.
    hold_spare(context, queue, tail, held)?;
    if let Some(inline) = inline_of::<N>(mtype, payload) {
        if RingReserve::is_whole(load_value(map, at!(queue, tail_or_reserve))?) {
            return Ok(Message::Inline(inline));
        }
        if context.reserve.is_due() {
            stock::stock_reserve(context, queue)?;
            return Err(Stop::Again);
        }
    }
    match *held {
        Some(chunk) if chunk.fits(map, layout, payload.len() as u64)? => {
            return Ok(Message::InChunk(chunk));
        }
        Some(small) => {
            *held = None;
            small.free(map)?;
        }
        None => {}
    }
    *held = take_ring_chunk(context, queue, payload.len())?;
    Err(if held.is_some() { Stop::Again } else { InRing::Slow.into() })
}

/// Finds whether a queue has room for so many bytes, and whether the ring then holds a large
/// message.
fn count_bytes<const N: usize>(
    call: &SendCall<'_>,
    ring: &MessageRing<N>,
    signals_seen: &mut Option<u32>,
) -> Result<bool, Stop> {
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, payload, no_wait, .. } = *call;
    let (map, bytes) = (context.pool().map(), payload.len() as u64);
    // After the look as well: a change of the limit makes it fail.
    let limit = load_value(map, at!(queue, limit))?.into();
    let is_large = is_large_in::<N>(limit, bytes);
    if !is_large && !ring.may_hold_large() {
        return Ok(false);
    }
    let held = Held::in_ring(context, ring, limit)?;
    if held.bytes.saturating_add(bytes) <= limit {
        return Ok(is_large | held.is_large);
    }
    if !no_wait && await_bytes(context, queue, ring, payload.len(), signals_seen) {
        return Err(Stop::Again);
    }
    Err(InRing::Slow.into())
}
