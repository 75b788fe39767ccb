//! From the list back to the long ring, with messages in it: a queue that many programs use at once
//! may never be empty.
//!
//! The messages keep their order. Each becomes the chunk of the client that moves it, as if that
//! had sent it through the ring: no client counts on a chunk in a ring (see
//! [`crate::msg::ring_chunk`]). What the chunk has to say in the ring means nothing in the list, so
//! it is written before the change is committed.

use arrayvec::ArrayVec;
use vshmem_sync::{Fault, LockContext, RingSlot, Txn, crash_point};
use vshmem_wire::{INTENT_ENTRIES, LONG_RING_SLOTS, Layout, RING_PAYLOAD_BYTES};

use crate::context::Context;
use crate::memory::change;
use crate::msg::count::pass_to_ring;
use crate::msg::message::Header;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{WORDS_TO_OPEN, long_ring_to_open, may_open, open};
use crate::msg::ring_chunk::{RingChunk, SpareChunk};
use crate::msg::ring_room::is_large_in;
use crate::pool::chunk::{Chunk, IN_OBJECT};

/// Messages that move in one change at most. A queue of requests and answers holds one for each
/// program that uses it.
const MOST: usize = 16;

/// Words that the move of a message writes: the owner cell of its chunk, and that of its slot.
const WORDS_OF_MESSAGE: usize = 2;

/// Words of the list: its ends, its length, its bytes.
const WORDS_OF_LIST: usize = 4;

const _: () = assert!(MOST * WORDS_OF_MESSAGE + WORDS_OF_LIST + WORDS_TO_OPEN <= INTENT_ENTRIES);

/// Whether a queue that a change leaves with messages in its list is to use its long ring next.
pub(super) fn may_move(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    let count = txn.get(at!(queue, count))? as usize;
    Ok((1..=MOST).contains(&count)
        && may_open(txn, queue)?
        && long_ring_to_open(txn, layout, queue)?.is_some())
}

/// Moves what is in the list into the long ring, if these are a few messages for which there is
/// always room, and nothing else keeps the queue from using it.
#[cold]
pub(super) fn move_to_long_ring(context: &Context, lock_context: &LockContext<'_>, queue: &Queue) {
    // The queue goes on with its list: a fault is for the call that meets it.
    let _ = change::run(context, lock_context, queue.lock(), "msg-to-ring", |txn| {
        if queue.alive(txn)? && may_move(txn, context.pool().layout(), queue)? {
            stage_move(context, txn, queue)?;
        }
        Ok(Ok(()))
    });
}

fn stage_move(context: &Context, txn: &mut Txn<'_>, queue: &Queue) -> Result<(), Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let Some(ring) = long_ring_to_open(txn, layout, queue)? else { return Ok(()) };
    let Some(chunks) = messages(txn, layout, queue)? else { return Ok(()) };
    if ring.words_to_open().is_none() {
        return Ok(());
    }
    let filled = || ring.words_to_fill(chunks.iter().map(|chunk| chunk.0));
    // Owners first: who finds a message in the ring may take it.
    for ((ring_slot, _), chunk) in filled().zip(&chunks) {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            spare.free(map)?;
        }
        pass_chunk(context, txn, queue, ring_slot, *chunk)?;
    }
    crash_point("msg-to-ring", "written-aside");
    for (ring_slot, word) in filled() {
        txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    txn.update(at!(queue, head), 0)?;
    txn.update(at!(queue, bytes), 0)?;
    pass_to_ring(txn, queue, chunks.len() as u32)?;
    open(txn, layout, queue, &ring)
}

/// The chunks of the list's messages, oldest first. `None`: one of them does not belong into the
/// long ring.
fn messages(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
) -> Result<Option<ArrayVec<Chunk, MOST>>, Fault> {
    let limit = txn.get(at!(queue, limit))?.into();
    let mut chunks = ArrayVec::new();
    let mut next = txn.get(at!(queue, head))?;
    while let Some(unit) = next.checked_sub(1) {
        let chunk = Chunk(unit);
        let size = Header::read(txn.lock_context().map, layout, chunk)?.size;
        let is_large = size > RING_PAYLOAD_BYTES || is_large_in::<LONG_RING_SLOTS>(limit, size);
        // For a moment the owner may be who reaps the sender, see `reap_chunk`.
        let is_listed = txn.get_word(chunk.owner(layout)?)? == IN_OBJECT;
        // A list may be longer than its length says if a peer has written that.
        if is_large || !is_listed || chunks.try_push(chunk).is_err() {
            return Ok(None);
        }
        next = txn.get(chunk.next(layout)?)?;
    }
    Ok(Some(chunks))
}

/// Writes what a message's chunk says in the ring, and stages that it is this client's.
fn pass_chunk(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    ring_slot: RingSlot<LONG_RING_SLOTS>,
    chunk: Chunk,
) -> Result<(), Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let owner_at = chunk.owner(layout)?;
    let (before, mine) = (txn.cell(owner_at)?, context.client_id().word());
    RingChunk::write_around(map, layout, queue.index, ring_slot, chunk, before.successor(mine))?;
    txn.replace(owner_at, before, mine)
}
