//! From the list back to the long ring, with messages in it: a queue that many programs use at once
//! may never be empty.
//!
//! The messages keep their order. Each becomes the chunk of the client that moves it, as if that
//! had sent it through the ring: no client counts on a chunk in a ring (see
//! [`crate::msg::ring_chunk`]). What the chunk has to say in the ring means nothing in the list, so
//! it is written before the change is committed.

use vshmem_sync::{Fault, RingSlot, Txn, crash_point};
use vshmem_wire::{LONG_RING_SLOTS, Layout, RING_PAYLOAD_BYTES};

use crate::context::Context;
use crate::msg::count::pass_to_ring;
use crate::msg::message::Header;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{WORDS_TO_OPEN, forget_spare, long_ring_to_open, may_open, open};
use crate::msg::ring_chunk::RingChunk;
use crate::msg::ring_room::is_large_in;
use crate::pool::chunk::{Chunk, IN_OBJECT};

/// Messages that move in one change at most.
const MOST: usize = 8;

/// Words that the move of a message writes at most: the owner cells of its chunk and of the one that
/// its slot notes, and the slot's.
const WORDS_OF_MESSAGE: usize = 3;

/// Words of the list: its ends, its length, its bytes.
const WORDS_OF_LIST: usize = 4;

/// Stages that a queue uses its long ring, with what is in its list, if these are a few messages
/// for which there is always room in the ring, and nothing else keeps the queue from using it.
#[inline]
pub(super) fn move_to_long_ring(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
) -> Result<(), Fault> {
    let count = txn.get(at!(queue, count))? as usize;
    let may_move = (1..=MOST).contains(&count) && txn.get(at!(queue, long_ring))? != 0;
    if may_move { try_to_move(context, txn, queue, count) } else { Ok(()) }
}

#[cold]
fn try_to_move(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    count: usize,
) -> Result<(), Fault> {
    let words = count * WORDS_OF_MESSAGE + WORDS_OF_LIST + WORDS_TO_OPEN;
    if txn.remaining_entries() < words || !may_open(txn, queue)? {
        return Ok(());
    }
    let layout = context.pool().layout();
    let Some(ring) = long_ring_to_open(txn, layout, queue)? else { return Ok(()) };
    let opens = ring.words_to_open().is_some_and(|(tail, _)| !txn.has_written(tail.at));
    let Some(chunks) = messages(txn, layout, queue, count)?.filter(|_| opens) else {
        return Ok(());
    };
    let map = txn.lock_context().map;
    let filled = || ring.words_to_fill(chunks[..count].iter().map(|chunk| chunk.0));
    // Owners first: who finds a message in the ring may take it.
    for ((ring_slot, _), chunk) in filled().zip(chunks) {
        forget_spare(txn, layout, queue, ring_slot)?;
        pass_chunk(context, txn, queue, ring_slot, chunk)?;
    }
    crash_point("msg-to-ring", "written");
    for (ring_slot, word) in filled() {
        txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    txn.update(at!(queue, head), 0)?;
    txn.update(at!(queue, bytes), 0)?;
    pass_to_ring(txn, queue, count as u32)?;
    open(txn, layout, queue, &ring)
}

/// The chunks of the list's messages, oldest first. `None`: one of them does not belong into the
/// long ring.
fn messages(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    count: usize,
) -> Result<Option<[Chunk; MOST]>, Fault> {
    let limit = txn.get(at!(queue, limit))?.into();
    let mut chunks = [Chunk(0); MOST];
    let mut next = txn.get(at!(queue, head))?;
    for chunk in &mut chunks[..count] {
        // A list whose length a peer has written stays where it is.
        let Some(unit) = next.checked_sub(1) else { return Ok(None) };
        *chunk = Chunk(unit);
        let size = Header::read(txn.lock_context().map, layout, *chunk)?.size;
        let is_large = size > RING_PAYLOAD_BYTES || is_large_in::<LONG_RING_SLOTS>(limit, size);
        // For a moment the owner may be who reaps the sender, see `reap_chunk`.
        if is_large || txn.get_word(chunk.owner(layout)?)? != IN_OBJECT {
            return Ok(None);
        }
        next = txn.get(chunk.next(layout)?)?;
    }
    Ok((next == 0).then_some(chunks))
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
