//! Descriptors of POSIX queues: how many each client has, and what becomes of a queue without.
//!
//! They are counted at the queue and in a record of the client, among its attach records.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, with_lock};
use vshmem_wire::{
    ATTACHED_QUEUE, AttachCount, ClientId, Layout, MsgSlot, ObjectName, ObjectState, field,
};

use crate::context::Context;
use crate::error::{Failure, broken};
use crate::memory::change;
use crate::msg::posix::mq_notify;
use crate::msg::queue::{Queue, at, find_posix};
use crate::msg::{remove, ring};
use crate::pool::id::Kind;
use crate::pool::limits::limit_name;
use crate::registry::attach_records::{add, first_of_queue, subtract};
use crate::registry::table;

/// What an attach record of a queue says in place of a segment.
fn held_word(index: u32) -> u32 {
    ATTACHED_QUEUE | (index + 1)
}

/// Stages that a client has so many descriptors more; false when there is no record left.
pub(crate) fn count(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    index: u32,
    more: u32,
) -> Result<bool, Fault> {
    // Before the word of the record is made of it: it may come from another client's record.
    let queue = queue_in(txn, layout, index)?;
    let more_held = AttachCount::descriptors(more);
    if !add(txn, layout, client, held_word(index), more_held)? {
        return Ok(false);
    }
    let opened = txn.get(at!(queue, opened))?;
    txn.set(at!(queue, opened), opened.saturating_add(more))?;
    Ok(true)
}

/// Stages that a client has so many descriptors less. Returns the queue that nobody can use any
/// more, as this thread's task; `None` if there is none.
fn discount(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    index: u32,
    fewer: AttachCount,
) -> Result<Option<Queue>, Fault> {
    let queue = queue_in(txn, layout, index)?;
    let gone = subtract(txn, layout, client, held_word(index), fewer)?.opened;
    let opened = txn.get(at!(queue, opened))?.saturating_sub(gone);
    txn.set(at!(queue, opened), opened)?;
    begin_removal(txn, &queue)
}

/// Stages that this thread removes a queue, if nobody can use it any more.
pub(crate) fn begin_removal(txn: &mut Txn<'_>, queue: &Queue) -> Result<Option<Queue>, Fault> {
    if !is_unused(txn, queue)? {
        return Ok(None);
    }
    table::begin_task(txn, Kind::Queue, queue.index)?;
    Ok(Some(*queue))
}

/// Whether a live queue has neither name nor descriptor. That stays so.
fn is_unused(txn: &mut Txn<'_>, queue: &Queue) -> Result<bool, Fault> {
    let name = ObjectName::unpack(txn.get_word(at!(queue, name))?);
    Ok(name == ObjectName::Unlinked && txn.get(at!(queue, opened))? == 0 && queue.alive(txn)?)
}

pub(crate) fn queue_in(txn: &mut Txn<'_>, layout: &Layout, index: u32) -> Result<Queue, Fault> {
    let slot = layout.msg.row(index)?;
    let state = txn.get(field!(slot, MsgSlot, header.state))?;
    Ok(Queue { index, sequence: table::SlotState::unpack(state).sequence, slot })
}

/// Removes a queue that nobody can use any more: the second step, under its own lock.
pub(crate) fn remove_unused(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let is_removed = ring::change_list(context, lock_context, queue, "mq-remove", |txn| {
        let unused = is_unused(txn, queue)?;
        if unused {
            let dying = queue.state_word(ObjectState::Dying);
            txn.set(field!(queue.slot, MsgSlot, header.state), dying)?;
        }
        Ok(unused)
    })?;
    if is_removed { remove::dismantle_queue(context, lock_context, queue) } else { Ok(()) }
}

/// One descriptor more of this process: it has got one by dup(2) or from another process.
pub(crate) fn keep(context: &Context, id: i32) -> Result<(), Failure> {
    let queue = find_posix(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    change::decide(context, &lock_context, lock, "mq-keep", |txn| {
        if !queue.alive(txn)? || is_unused(txn, &queue)? {
            return Ok(Abandon(Errno::BADF));
        }
        let counted = count(txn, layout, context.client_id(), queue.index, 1)?;
        if counted {
            return Ok(Commit(()));
        }
        Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NFILE)))
    })
}

/// mq_close(3): one descriptor of this process less, and the end of its registration.
pub(crate) fn close(context: &Context, id: i32) -> Result<(), Failure> {
    let queue = find_posix(context, id)?;
    mq_notify::unregister(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    let unused = change::decide(context, &lock_context, lock, "mq-close", |txn| {
        if !queue.alive(txn)? {
            return Ok(Abandon(Errno::BADF));
        }
        let one = AttachCount::descriptors(1);
        discount(txn, layout, context.client_id(), queue.index, one).map(Commit)
    })?;
    unused.map_or(Ok(()), |queue| remove_unused(context, &lock_context, &queue))
}

/// Stages that a client has so many descriptors more of the queue that an attach record says; false
/// when there is no record left.
pub(crate) fn count_held(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    held: u32,
    more: u32,
) -> Result<bool, Fault> {
    count(txn, layout, client, (held & !ATTACHED_QUEUE).wrapping_sub(1), more)
}

/// Closes all descriptors of a client. May be left halfway and begun again.
pub(crate) fn close_all(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    for _ in 0..=layout.attaches.count {
        let lock = context.pool().registry_lock();
        let closed = with_lock(*lock_context, lock, "mq-close-all", |txn| {
            let Some(held) = first_of_queue(txn, layout, client)? else { return Ok(None) };
            let index = (held & !ATTACHED_QUEUE).wrapping_sub(1);
            discount(txn, layout, client, index, AttachCount::ALL).map(Some)
        })?;
        match closed {
            None => return Ok(()),
            Some(None) => {}
            Some(Some(queue)) => {
                remove_unused(context, lock_context, &queue).map_err(broken(queue.slot))?
            }
        }
    }
    Err(Fault::corrupt(layout.attaches.offset(), "an attach list without an end"))
}

/// Goes on with a queue that a thread was about to remove, if that is why it is the thread's task.
pub(crate) fn recover_removal(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    if !queue.is_posix(context.pool().map())? {
        return Ok(());
    }
    remove_unused(context, lock_context, queue)
}
