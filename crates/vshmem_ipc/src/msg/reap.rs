//! Reaping a client that may have sent a message through a ring (see `ring.rs` for who owns what).
//!
//! A chunk that a dead client owns may be that of a message in a ring. A client that only seems to
//! be dead may be about to put it there. The chunk says in which ring. So the thread that reaps
//! first makes the chunk its own: a sender reads the owner cell after it has written the ring's
//! name into the chunk and before it sends, and so notices. Then the thread empties that ring under
//! its lock: all messages are in the list now, and the swap of a sender that has looked at the ring
//! before is refused. After that the chunk is either in the list or free.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, LockContext, Txn, claim_word, with_lock};
use vshmem_wire::{Layout, RingPosition};

use crate::msg::queue::{Queue, at};
use crate::msg::ring::{close_ring, leave_ring};
use crate::msg::ring_chunk::ring_position_in;
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::open::Pool;
use crate::registry::table::{self, MOST_TRIES};

/// Takes a chunk from the dead client whose id is `dead`. If the chunk holds a message, it is in
/// the list of its queue afterwards; otherwise it is free. `mine` is the caller's own id.
pub(crate) fn reap_chunk(
    pool: &Pool,
    lock_context: &LockContext<'_>,
    chunk: Chunk,
    dead: u64,
    mine: u64,
) -> Result<(), Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let owner_at = chunk.owner(layout)?;
    if !claim_word(map, owner_at, dead, mine)? {
        return Ok(());
    }
    // Pairs with `RingChunk::take_ring_chunk`.
    let index =
        RingPosition::index_in(map.load(ring_position_in(layout, chunk)?, Ordering::SeqCst)?);
    let slot = index.and_then(|index| Some((index, layout.msg.at(index)?)));
    if let Some((index, slot)) = slot {
        let queue =
            Queue { index, sequence: table::slot_state(map, slot.header())?.sequence, slot };
        for _ in 0..MOST_TRIES {
            match reap_in_queue(layout, lock_context, &queue, chunk, mine) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The queue is corrupt: the chunk is freed.
                Err(_) => break,
            }
        }
    }
    claim_word(map, owner_at, mine, 0)?;
    Ok(())
}

/// Does so under the lock of its queue. False when there has to be another change, as `leave_ring`
/// has it.
fn reap_in_queue(
    layout: &Layout,
    lock_context: &LockContext<'_>,
    queue: &Queue,
    chunk: Chunk,
    mine: u64,
) -> Result<bool, Fault> {
    close_ring(lock_context.map, layout, queue)?;
    with_lock(*lock_context, queue.lock(), "msg-reap", |txn| {
        if !leave_ring(txn, layout, queue)? {
            return Ok(false);
        }
        let owner_at = chunk.owner(layout)?;
        if txn.get_word(owner_at)? == mine {
            let owner = if is_listed(txn, layout, queue, chunk)? { IN_OBJECT } else { 0 };
            txn.set_word(owner_at, owner)?;
        }
        Ok(true)
    })
}

fn is_listed(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    chunk: Chunk,
) -> Result<bool, Fault> {
    let mut next = txn.get(at!(queue, head))?;
    for _ in 0..=layout.unit_meta.count {
        match next.checked_sub(1) {
            None => return Ok(false),
            Some(unit) if unit == chunk.0 => return Ok(true),
            Some(unit) => next = txn.get(Chunk(unit).next(layout)?)?,
        }
    }
    Err(Fault::corrupt(queue.slot, "a queue without an end"))
}
