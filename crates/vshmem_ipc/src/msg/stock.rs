//! Providing chunks in reserve for a queue, and taking back what queues keep when the heap is full.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, LockContext, Txn, load_cell, load_value};
use vshmem_wire::{
    Layout, MSG_HEADER_BYTES, MsgHeader, ObjectState, RING_INLINE_BYTES, RING_SLOTS, RingReserve,
    field,
};

use crate::context::Context;
use crate::error::{Failure, unless_refused};
use crate::memory::{change, chunks, heap};
use crate::msg::mode::{RingInUse, ring_in_use, uses_ring};
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{change_list, enter_ring, free_spare};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::registry::table;

/// Gives a chunk a tag that it has never had, before it comes into a reserve.
fn tag_chunk(map: &Map, layout: &Layout, chunk: Chunk) -> Result<(), Fault> {
    let owner = load_cell(map, chunk.owner(layout)?)?;
    map.store(field!(chunk.place(layout)?, MsgHeader, tag), owner.tag, Ordering::Release)?;
    Ok(())
}

/// Provides a reserve for a queue that uses its ring, if the heap has room for one.
#[cold]
pub(crate) fn stock_reserve(context: &Context, queue: &Queue) -> Result<(), Fault> {
    let Ok(slot_guard) = context.slot_guard() else { return Ok(()) };
    let lock_context = context.lock_context_of(&slot_guard);
    let pool = context.pool();
    let mut chunks = Vec::with_capacity(RING_SLOTS);
    while chunks.len() < RING_SLOTS
        && let Some(chunk) =
            heap::allocate(context, &lock_context, MSG_HEADER_BYTES + RING_INLINE_BYTES as u64)?
    {
        tag_chunk(pool.map(), pool.layout(), chunk)?;
        chunks.push(chunk);
    }
    let mut is_stocked = false;
    if chunks.len() == RING_SLOTS {
        let stocked = change::run(context, &lock_context, queue.lock(), "msg-reserve", |txn| {
            stage_reserve(context, txn, queue, &chunks)
        });
        is_stocked = unless_refused(stocked)?.unwrap_or(false);
    }
    if !is_stocked {
        for chunk in chunks {
            chunks::release(context, &lock_context, chunk)?;
        }
    }
    Ok(())
}

/// Stages that these chunks are the queue's reserve; false when it has one, or no use for one.
fn stage_reserve(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    chunks: &[Chunk],
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let mode = txn.get_word(at!(queue, mode))?;
    if !queue.alive(txn)?
        || !uses_ring::<RING_SLOTS>(mode)
        || txn.get(at!(queue, tail_or_reserve))? != 0
    {
        return Ok(false);
    }
    let mut next = 0;
    for chunk in chunks {
        heap::pass(txn, layout, *chunk, context.client_id().word(), IN_OBJECT)?;
        txn.update(chunk.next(layout)?, next)?;
        next = chunk.0 + 1;
    }
    let count = chunks.len() as u32;
    let value = next.checked_sub(1).map_or(0, |unit| RingReserve { unit, count }.pack());
    txn.set(at!(queue, tail_or_reserve), value)?;
    Ok(true)
}

/// Frees the reserve of a queue where the heap is full; says whether there was one.
pub(crate) fn give_up_reserve(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<bool, Fault> {
    let value = load_value(context.pool().map(), at!(queue, tail_or_reserve))?;
    let is_short = ring_in_use(context.pool().map(), queue)? == Some(RingInUse::Short);
    if !is_short || RingReserve::unpack(value).is_none() {
        return Ok(false);
    }
    let layout = context.pool().layout();
    // With the ring closed it is used or free.
    let done = change_list(context, lock_context, queue, "msg-reserve-free", |txn| {
        if queue.alive(txn)? {
            enter_ring(txn, layout, queue)?;
        }
        Ok(())
    });
    Ok(unless_refused(done)?.is_some())
}

/// Frees the chunks that rings keep for their next messages; says whether there were any.
pub(crate) fn free_spare_chunks(
    context: &Context,
    lock_context: &LockContext<'_>,
) -> Result<bool, Failure> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut freed = false;
    for index in 0..layout.msg.count as u32 {
        let Some(slot) = layout.msg.at(index) else { break };
        let slot_state = table::slot_state(map, slot.header())?;
        if slot_state.is(ObjectState::Live) {
            let queue = Queue { index, sequence: slot_state.sequence, slot };
            freed |= free_spare(map, layout, &queue)?;
            freed |= give_up_reserve(context, lock_context, &queue)?;
        }
    }
    Ok(freed)
}
