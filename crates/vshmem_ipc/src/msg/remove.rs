//! msgctl(2): IPC_RMID, and taking a removed queue apart.

use rustix::io::Errno;
use vshmem_sync::Decision::{Commit, CommitThenFail};
use vshmem_sync::{Fault, LockContext};
use vshmem_wire::{MsgSlot, ObjectState, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::msg::list::{pass_from_list, retry};
use crate::msg::queue::{self, Queue, at};
use crate::msg::ring::{self, free_spare};
use crate::pool::chunk::Chunk;
use crate::pool::id::Kind;
use crate::registry::name;
use crate::registry::permission::Caller;
use crate::registry::table;
use crate::wait::doorbell;
use crate::wait::wait_queue::{WakeList, result_of};

/// IPC_RMID.
pub(crate) fn queue_remove(context: &Context, id: i32, caller: &dyn Caller) -> Result<(), Failure> {
    let queue = queue::find(context, id)?;
    queue::permission(context, &queue)?.allow_control(caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    ring::decide_list(context, &lock_context, &queue, "msg-remove", |txn| {
        if !queue.alive(txn)? {
            return Ok(CommitThenFail(Errno::IDRM));
        }
        txn.set(field!(queue.slot, MsgSlot, header.state), queue.state_word(ObjectState::Dying))?;
        table::begin_task(txn, Kind::Queue, queue.index)?;
        Ok(Commit(()))
    })?;
    dismantle_queue(context, &lock_context, &queue)
}

/// Takes a removed queue apart. May be done by any thread, several times, and be left halfway.
pub(crate) fn dismantle_queue(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let dying = queue.state_word(ObjectState::Dying);
    let state_at = field!(queue.slot, MsgSlot, header.state);
    // Each round but the last takes a waiter or a message away.
    let mut rounds = layout.threads.count + layout.unit_meta.count + 1;
    loop {
        rounds = rounds
            .checked_sub(1)
            .ok_or(Fault::corrupt(queue.slot, "a queue that cannot be taken apart"))?;
        let mut wakes = WakeList::default();
        let finished = change::run(context, lock_context, queue.lock(), "msg-dismantle", |txn| {
            wakes.clear();
            if txn.get(state_at)? != dying {
                return Ok(true);
            }
            let gone = result_of(Errno::IDRM);
            for wait_queue in [queue.receivers(), queue.senders(), queue.notified()] {
                let done = WaitState::Done;
                if retry(txn, layout, wait_queue, &mut wakes, done, gone, |_, _| Ok(true))? {
                    return Ok(false);
                }
            }
            while txn.remaining_entries() >= 8 {
                let Some(unit) = txn.get(at!(queue, head))?.checked_sub(1) else {
                    return Ok(true);
                };
                // No message is large enough for a run of slabs (the bound of msgmax), so clearing
                // the owner cell frees its chunk.
                let next = txn.get(Chunk(unit).next(layout)?)?;
                txn.set(at!(queue, head), next)?;
                pass_from_list(txn, layout, Chunk(unit), 0)?;
            }
            Ok(false)
        })?;
        doorbell::wake_listed(context, &wakes);
        if finished {
            break;
        }
    }
    // The ring is closed, so there will be no new ones.
    free_spare(pool.map(), layout, queue)?;
    change::run(context, lock_context, pool.registry_lock(), "msg-free", |txn| {
        if txn.get(state_at)? != dying {
            return Ok(());
        }
        name::leave(txn, layout, Kind::Queue, queue.index)?;
        table::leave_key(txn, layout, Kind::Queue, queue.index)?;
        table::free_slot(txn, layout, Kind::Queue, queue.index)?;
        table::end_task(txn, Kind::Queue, queue.index)?;
        Ok(())
    })
}
