//! Receivers that wait while the ring stays in use.
//!
//! Otherwise the first receiver that has to sleep, of many clients that wait for answers, would
//! close the ring for all of them. In the wait queue beside a ring there are only receivers that
//! accept none of the messages in the ring, and each sender finds in the word of the mode whether
//! another thread may wait for its type (`mode.rs`). If so, it goes under the lock and
//! hands its message over, past the ring: none in the ring is one that the waiter accepts.
//!
//! Joining the wait queue: under the lock the receiver closes the tail of the ring, so that no
//! thread sends, and looks at the messages. Then it joins, adds its type to the word, and lets
//! senders pass at the next position, in one step. A sender that meets the barrier looks again for
//! a moment. A sender looks at the ring first and at the word after it. If it has looked at the
//! ring before the tail was closed, then its compare-and-swap fails; if later, it finds the type.
//!
//! In a full ring the tail holds the oldest message. If that lies in its slot, it goes into a chunk
//! of the receiver's before the tail opens again.
//!
//! Leaving the wait queue changes nothing else: a type that no thread waits for any more only sends
//! a sender under the lock, which then finds no thread, corrects the word and sends by way of the
//! ring.

use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, LockContext, MessageRing, SlotGuard, Tail, crash_point, load_value};
use vshmem_wire::{Cell, MSG_HEADER_BYTES, RING_INLINE_BYTES};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks};
use crate::msg::fast_send::SendCall;
use crate::msg::glimpse::Glimpse;
use crate::msg::message::Header;
use crate::msg::mode::{
    AwaitedTypes, RingInUse, is_large_in, ring_base, ring_in_use, uses_ring, with_ring,
};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{header_of, let_senders_pass};
use crate::msg::ring_chunk::RingChunk;
use crate::msg::ring_room::has_room;
use crate::msg::waiters::{self, Handed, ReceiveFilter};
use crate::registry::permission::{Permission, WRITE};
use crate::wait::doorbell;
use crate::wait::wait_queue::WakeList;

/// What became of a message for which a receiver in the wait queue may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOff {
    /// A waiter has it.
    Taken,
    /// No receiver in the wait queue accepts it, as long as the cell of the mode is this one.
    Refused(Cell),
    /// It has to go the way of the list.
    List,
}

/// What became of a receiver that wanted to join the wait queue beside a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is in the wait queue.
    Yes,
    /// There is a message for it in the ring.
    Found,
    /// It has to go the way of the list.
    List,
}

/// Joins the wait queue of receivers and leaves the ring in use.
pub(crate) fn enqueue_with_ring(
    context: &Context,
    queue: &Queue,
    wanted: &ReceiveFilter,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Joined, Failure> {
    let Some(ring) = ring_in_use(context.pool().map(), queue)? else {
        return Ok(Joined::List);
    };
    with_ring!(ring, N => {
        enqueue_with::<N>(context, queue, wanted, lock_context, slot_guard)
    })
}

fn enqueue_with<const N: usize>(
    context: &Context,
    queue: &Queue,
    wanted: &ReceiveFilter,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Joined, Failure> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let base = ring_base::<N>(map, layout, queue)?;
    let ring = MessageRing::<N>::read(map, base)?;
    // Without a barrier, as the caller looks again in any case.
    if ring.tail() != Tail::Closed && look_in_ring(context, &ring, wanted)? == Some(Joined::Found) {
        return Ok(Joined::Found);
    }
    let mut held = None;
    let joined = loop {
        match enqueue_holding(context, queue, &ring, wanted, &mut held, lock_context, slot_guard) {
            Ok(None) => {}
            Ok(Some(joined)) => break Ok(joined),
            Err(failure) => break Err(failure),
        }
        held = chunk_for_tail(context, queue, lock_context)?;
        if held.is_none() {
            break Ok(Joined::List);
        }
    };
    if let Some(RingChunk { chunk, .. }) = held {
        chunks::release(context, lock_context, chunk)?;
    }
    joined
}

/// The same with a chunk in hand, in case that there has to be one for the message in the slot of
/// the tail: `None` if so, and there is none.
fn enqueue_holding<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    wanted: &ReceiveFilter,
    held: &mut Option<RingChunk>,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Option<Joined>, Failure> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut is_used = false;
    let joined = change::run(context, lock_context, queue.lock(), "msg-wait", |txn| {
        is_used = false;
        let mode = txn.get_word(at!(queue, mode))?;
        // With older messages in the list another thread has begun to empty a long ring.
        let uses_ring = uses_ring::<N>(mode) && txn.get(at!(queue, head))? == 0;
        if !queue.alive(txn)? || !uses_ring {
            return Ok(Some(Joined::List));
        }
        // Any thread may close a ring at any time; and only under this lock does its tail open
        // again.
        MessageRing::<N>::close_tail(map, ring.base())?;
        let ring = MessageRing::<N>::read(map, ring.base())?;
        let found = look_in_ring(context, &ring, wanted)?;
        if found == Some(Joined::List) {
            return Ok(found);
        }
        if let Some(ring_slot) = ring.inline_tail() {
            let Some(held) = *held else { return Ok(None) };
            if !held.is_ours(map)? {
                return Ok(Some(Joined::List));
            }
            let (mtype, size) = ring_slot.inline().unwrap_or_default();
            let payload = &ring_slot.inline_payload(map)?[..size];
            held.write(map, queue.index, ring_slot, mtype, payload)?;
            is_used = true;
        }
        let Some(passed) = ring.words_to_pass(held.map(|held| held.chunk.0)) else {
            return Ok(Some(Joined::List));
        };
        if found.is_none() {
            waiters::join_receivers(context, txn, queue, wanted, slot_guard)?;
            // Before the tail: a sender that sees it open sees the type as well. And written even
            // if it is the same: see `Refused`.
            let awaited_types = AwaitedTypes::in_mode(mode).with(wanted.search);
            txn.set_word(at!(queue, mode), awaited_types.mode(RingInUse::of_slots::<N>()))?;
        }
        let_senders_pass(txn, layout, queue, passed)?;
        Ok(Some(found.unwrap_or(Joined::Yes)))
    })?;
    if is_used && joined != Some(Joined::List) {
        *held = None;
    }
    Ok(joined)
}

/// Looks for the first message that a receiver accepts: `Found` if it can take that from the ring,
/// `List` if not.
fn look_in_ring<const N: usize>(
    context: &Context,
    ring: &MessageRing<N>,
    wanted: &ReceiveFilter,
) -> Result<Option<Joined>, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    for ring_slot in ring.messages() {
        let header = header_of(map, layout, ring_slot)?;
        if wanted.search.accepts(header.mtype) {
            let may_take = wanted.search.takes_first(header.mtype) && header.size <= wanted.room;
            return Ok(Some(if may_take { Joined::Found } else { Joined::List }));
        }
    }
    Ok(None)
}

/// A chunk for a message that lies in the slot of the tail: opening the tail raises the tag of its
/// cell, and that is the message's payload.
#[cold]
fn chunk_for_tail(
    context: &Context,
    queue: &Queue,
    lock_context: &LockContext<'_>,
) -> Result<Option<RingChunk>, Fault> {
    let bytes = MSG_HEADER_BYTES + RING_INLINE_BYTES as u64;
    let Ok(chunk) = chunks::take(context, lock_context, bytes) else { return Ok(None) };
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let held = RingChunk::take_ring_chunk(map, layout, queue.index, chunk)?;
    crash_point("msg-wait", "has-chunk");
    Ok(Some(held))
}

/// Hands a message over to a waiter beside the ring.
#[cold]
pub(crate) fn hand_to_waiter(call: &SendCall<'_>) -> Result<HandOff, Failure> {
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, mtype, payload, caller, .. } =
        *call;
    let pool = context.pool();
    let layout = pool.layout();
    Permission::check(pool.map(), queue.slot.header(), caller, WRITE)??;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let chunk = chunks::take(context, &lock_context, MSG_HEADER_BYTES + payload.len() as u64)?;
    let mut wakes = WakeList::default();
    let mut hand_to_waiter = || -> Result<HandOff, Failure> {
        Header::write_payload(pool.map(), layout, chunk, mtype, payload)?;
        let header = Header { mtype, size: payload.len() as u64 };
        change::run(context, &lock_context, queue.lock(), "msg-hand-over", |txn| {
            wakes.clear();
            let mode = txn.get_word(at!(queue, mode))?;
            // With messages in the list another thread has begun to empty a long ring.
            let is_usable = queue.alive(txn)? && txn.get(at!(queue, head))? == 0;
            let Some(ring) = RingInUse::of(mode).filter(|_| is_usable) else {
                return Ok(HandOff::List);
            };
            // The kernel's would not go past a full queue either.
            if !with_ring!(ring, N => has_place::<N>(context, queue, payload.len())?) {
                return Ok(HandOff::List);
            }
            let handed = waiters::hand_over(context, txn, queue, header, chunk, &mut wakes)?;
            if handed == Handed::Undecided {
                return Ok(HandOff::List);
            }
            // As long as others sleep, the word is only corrected when it has led another thread
            // here for nothing.
            if handed == Handed::No || txn.get(at!(queue, receive_head))? == 0 {
                let awaited_types = AwaitedTypes::waiting_types(txn, layout, queue)?;
                txn.update_word(at!(queue, mode), awaited_types.mode(ring))?;
            }
            if handed == Handed::No {
                return Ok(HandOff::Refused(txn.cell(at!(queue, mode))?));
            }
            txn.update(at!(queue, sender), context.process_ref().pack())?;
            txn.update(at!(queue, sent), seconds_now())?;
            Ok(HandOff::Taken)
        })
    };
    let offered = hand_to_waiter();
    doorbell::wake_listed(context, &wakes);
    if offered != Ok(HandOff::Taken) {
        let _ = chunks::release(context, &lock_context, chunk);
    }
    offered
}

/// Whether there would be room for a message of so many bytes in the ring.
fn has_place<const N: usize>(
    context: &Context,
    queue: &Queue,
    bytes: usize,
) -> Result<bool, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let ring = MessageRing::<N>::read(map, ring_base::<N>(map, layout, queue)?)?;
    let limit = load_value(map, at!(queue, limit))?.into();
    // Where a slot is free there is room for a short one.
    let is_short = !is_large_in::<N>(limit, bytes as u64) && !ring.may_hold_large();
    let has_slot = is_short && ring.tail() != Tail::Full;
    Ok(has_slot || has_room(context, queue, &ring, bytes)?)
}
