//! What is done to a queue when a receiver has ended that was handed a message.

use vshmem_mem::Ordering;
use vshmem_sync::LockContext;
use vshmem_wire::{ReceiveWait, ThreadSlot, WaitKind, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::heap;
use crate::msg::list::{End, insert};
use crate::msg::message::Header;
use crate::msg::queue::Queue;
use crate::msg::{ring, serve};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::threads::Dead;

/// Puts a message back that was handed to a receiver who died before it could know: it is the
/// oldest of those that the receiver accepts.
pub(crate) fn put_back(
    context: &Context,
    lock_context: &LockContext<'_>,
    dead: Dead,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    ring::change_list(context, lock_context, queue, "msg-put-back", |txn| {
        let at = dead.at;
        let map = txn.lock_context().map;
        let sequence =
            map.load(field!(at.receive_wait(), ReceiveWait, queue_sequence), Ordering::Relaxed)?;
        let unit = txn.get(field!(at, ThreadSlot, message))?;
        let unseen = dead.has_unseen(txn, WaitKind::Receive, queue.index)?
            && sequence == u64::from(queue.sequence);
        let Some(unit) = unit.checked_sub(1).filter(|_| unseen) else {
            return Ok(());
        };
        let chunk = Chunk(unit);
        if !queue.alive(txn)? || txn.get_word(chunk.owner(layout)?)? != dead.client.word() {
            return Ok(());
        }
        let header = Header::read(map, layout, chunk)?;
        heap::pass(txn, layout, chunk, dead.client.word(), IN_OBJECT)?;
        insert(txn, layout, queue, chunk, header, End::Oldest)?;
        txn.set_state(field!(at, ThreadSlot, wait), WaitState::Idle)?;
        Ok(())
    })?;
    serve::serve_receivers(context, lock_context, queue)
}
