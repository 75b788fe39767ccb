//! The long ring of a queue: made when the ring in its slot of the table has been too short.
//!
//! It lies in the heap, and stays bound to the slot of the queue, also when the queue is removed
//! and another one takes the slot. A thread that is late with a compare-and-swap finds a cell of
//! the same ring, whose words do not come back, and fails. In memory that is used for something
//! else by then it could find what it expects.
//!
//! No message lies in a slot of it: each has a chunk, so there are none in reserve. The change that
//! finds the list empty opens it instead of the short one; how rarely says
//! `MsgSlot::long_ring_rarity`.

use vshmem_mem::Map;
use vshmem_sync::{Fault, LockContext, MessageRing, Txn, crash_point, load_value};
use vshmem_wire::{LONG_RING_SLOTS, Layout, NEW_RARITY_LOG2, Place, RawCell};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::is_roomy;
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::tag_floor;

/// Makes the long ring of a queue that is too full for its ring, if there is none, it may have one
/// and there is memory for it: after the message was sent, which needs its memory more.
#[cold]
pub(crate) fn make_if_missing(context: &Context, queue: &Queue) {
    // The queue does without: a fault is for the call that meets it.
    let _ = try_to_make(context, queue);
}

fn try_to_make(context: &Context, queue: &Queue) -> Result<(), Fault> {
    let map = context.pool().map();
    let limit = load_value(map, at!(queue, limit))?;
    let most_messages = load_value(map, at!(queue, most_messages))?;
    if load_value(map, at!(queue, long_ring))? != 0
        || !is_roomy::<LONG_RING_SLOTS>(limit, most_messages)
    {
        return Ok(());
    }
    let Ok(slot_guard) = context.slot_guard() else { return Ok(()) };
    let lock_context = context.lock_context_of(&slot_guard);
    if !context.chunk_cache.may_look_for_ring() {
        return Ok(());
    }
    let Some(chunk) = heap::allocate_ring(context, &lock_context)? else {
        context.chunk_cache.note_no_ring();
        return Ok(());
    };
    if bind(context, &lock_context, queue, chunk) != Ok(true) {
        chunks::discard(context, &lock_context, Some(chunk));
    }
    Ok(())
}

/// Binds it to the slot; false when the slot has one, or the queue has gone.
fn bind(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
    chunk: Chunk,
) -> Result<bool, Failure> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    lay_closed_ring(map, layout, chunk)?;
    crash_point("msg-long-ring", "laid");
    change::run(context, lock_context, queue.lock(), "msg-long-ring", |txn| {
        stage_binding(context, txn, queue, chunk)
    })
}

/// Lays a ring that is empty and closed.
fn lay_closed_ring(map: &Map, layout: &Layout, chunk: Chunk) -> Result<(), Fault> {
    let base: Place<[RawCell; LONG_RING_SLOTS]> = chunk.place(layout)?;
    tag_floor::lay_cells(map, layout, base.first(), LONG_RING_SLOTS as u32, 0)?;
    MessageRing::<LONG_RING_SLOTS>::close(map, base)
}

fn stage_binding(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    chunk: Chunk,
) -> Result<bool, Fault> {
    if !queue.alive(txn)? || txn.get(at!(queue, long_ring))? != 0 {
        return Ok(false);
    }
    heap::pass(txn, context.pool().layout(), chunk, context.client_id().word(), IN_OBJECT)?;
    txn.set(at!(queue, long_ring), chunk.0 + 1)?;
    txn.update(at!(queue, long_ring_rarity), NEW_RARITY_LOG2)?;
    Ok(true)
}
