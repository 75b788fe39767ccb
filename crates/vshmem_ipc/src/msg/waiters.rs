//! Receivers that wait: what they ask for, how they join the wait queue, and how a message is
//! handed to one.

use rustix::io::Errno;
use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{Fault, SlotGuard, Txn};
use vshmem_wire::{
    ClientId, RING_PAYLOAD_BYTES, ReceiveWait, ThreadSlot, WaitKind, WaitState, field,
};

use crate::context::Context;
use crate::memory::heap;
use crate::msg::count::sent_past_ring;
use crate::msg::message::{Header, Search};
use crate::msg::queue::{Queue, Receive, at};
use crate::msg::ring::enter_ring;
use crate::pool::chunk::Chunk;
use crate::wait::wait_queue::{self, WakeList, result_of};

/// Takes a message: its type, its size, and a way to copy its payload. Returns what msgrcv does.
pub type Deliver<'a> = dyn FnMut(i64, usize, &dyn Fn(&mut [u8])) -> Result<usize, Errno> + 'a;

/// What msgrcv answers, in one word: bytes, or an errno below zero.
///
/// A `Result<usize, Errno>` is copied from its odd offsets on, together with what has just been
/// stored in parts: the processor waits for such a load until all the stores are done. A receiver
/// paid some 30 ns for that on the way of its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer(i64);

impl Answer {
    #[inline]
    pub fn of(result: Result<usize, Errno>) -> Self {
        match result {
            Ok(bytes) => Self(bytes as i64),
            Err(errno) => Self::error(errno),
        }
    }

    #[inline]
    pub fn error(errno: Errno) -> Self {
        Self(-i64::from(errno.raw_os_error()))
    }

    /// The number of bytes, or the errno.
    #[inline]
    pub fn result(self) -> Result<usize, Errno> {
        usize::try_from(self.0).map_err(|_| Errno::from_raw_os_error(-self.0 as i32))
    }
}

/// What a receiver in the wait queue waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveFilter {
    pub search: Search,
    /// Bytes; more than there can be where a longer message is cut.
    pub room: u64,
}

impl ReceiveFilter {
    pub(crate) fn of(wanted: Receive, search: Search) -> Self {
        Self { search, room: if wanted.cut { u64::MAX } else { wanted.room as u64 } }
    }
}

/// Stages that this thread stands at the end of the wait queue of receivers.
pub(crate) fn join_receivers(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    wanted: &ReceiveFilter,
    slot_guard: &SlotGuard<'_>,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let at = layout.threads.row(slot_guard.slot)?;
    let map = txn.lock_context().map;
    let (mode, mtype) = wanted.search.pack();
    map.store(field!(at.receive_wait(), ReceiveWait, mode), mode, Ordering::Relaxed)?;
    map.store(field!(at.receive_wait(), ReceiveWait, mtype), mtype, Ordering::Relaxed)?;
    map.store(field!(at.receive_wait(), ReceiveWait, room), wanted.room, Ordering::Relaxed)?;
    let sequence = u64::from(queue.sequence);
    map.store(field!(at.receive_wait(), ReceiveWait, queue_sequence), sequence, Ordering::Relaxed)?;
    txn.update(field!(at, ThreadSlot, process_ref), context.process_ref().pack())?;
    txn.update(field!(at, ThreadSlot, message), 0)?;
    let wait_queue = queue.receivers();
    wait_queue::enqueue(txn, layout, wait_queue, slot_guard, WaitKind::Receive, queue.index)
}

/// What became of a message when it met the sleeping receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    /// One of them has it.
    Yes,
    /// None of them accepts it.
    No,
    /// There are too many to tell in one change.
    Undecided,
}

/// Gives a message to the first sleeping receiver that accepts it (`pipelined_send`).
pub(crate) fn hand_over(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    header: Header,
    chunk: Chunk,
    wakes: &mut WakeList,
) -> Result<Handed, Fault> {
    let layout = context.pool().layout();
    if txn.get(at!(queue, receive_head))? == 0 {
        return Ok(Handed::No);
    }
    let mut handed = Handed::No;
    let mut plain = false;
    wait_queue::walk(txn, layout, queue.receivers(), |txn, slot| {
        let at = layout.threads.row(slot)?;
        let map = txn.lock_context().map;
        let search = Search::of_waiter(map, at)?;
        let room = map.load(field!(at.receive_wait(), ReceiveWait, room), Ordering::Relaxed)?;
        if !search.accepts(header.mtype) {
            return Ok(true);
        }
        if txn.remaining_entries() < 16 {
            // Many receivers with too small a buffer in a row: they are woken, and the message
            // goes on to the rest in another change.
            handed = Handed::Undecided;
            return Ok(false);
        }
        wakes.add(slot);
        if room < header.size {
            let result = result_of(Errno::TOOBIG);
            wait_queue::dequeue(txn, layout, queue.receivers(), slot, WaitState::Done, result)?;
            return Ok(true);
        }
        let owner = txn.get_word(field!(at, ThreadSlot, owner))?;
        let Some(client) = ClientId::of(owner) else {
            return Err(Fault::corrupt(at, "a waiter without an owner"));
        };
        heap::pass(txn, layout, chunk, context.client_id().word(), client.word())?;
        txn.set(field!(at, ThreadSlot, message), chunk.0 + 1)?;
        let receiver = txn.get(field!(at, ThreadSlot, process_ref))?;
        txn.update(at!(queue, receiver), receiver)?;
        txn.update(at!(queue, received), seconds_now())?;
        sent_past_ring(txn, queue)?;
        wait_queue::dequeue(txn, layout, queue.receivers(), slot, WaitState::Done, 0)?;
        handed = Handed::Yes;
        plain = search.is_plain();
        Ok(false)
    })?;
    if plain && header.size <= RING_PAYLOAD_BYTES {
        enter_ring(txn, layout, queue)?;
    }
    Ok(handed)
}
