//! semctl(2): IPC_RMID, and taking a removed set apart.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, load_value};
use vshmem_wire::{Layout, ObjectState, SemSlot, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::pool::chunk::Chunk;
use crate::pool::id::Kind;
use crate::pool::tag_floor;
use crate::registry::permission::Caller;
use crate::registry::table;
use crate::sem::set::{self, Set};
use crate::sem::undo;
use crate::wait::doorbell;
use crate::wait::wait_queue::{self, WakeList, result_of};

/// IPC_RMID.
pub(crate) fn set_remove(context: &Context, id: i32, caller: &dyn Caller) -> Result<(), Failure> {
    let set = set::find(context, id)?;
    set::permission(context, &set)?.allow_control(caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, set.lock(), "sem-remove", |txn| {
        if !set.alive(txn)? {
            return Ok(Abandon(Errno::IDRM));
        }
        let dying = set.state_word(ObjectState::Dying);
        txn.set(field!(set.slot, SemSlot, header.state), dying.pack())?;
        table::begin_task(txn, Kind::Semaphore, set.index)?;
        Ok(Commit(()))
    })?;
    dismantle_set(context, &lock_context, &set)
}

/// Takes a removed set apart. May be done by any thread, several times, and be left halfway.
pub(crate) fn dismantle_set(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
) -> Result<(), Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let dying = set.state_word(ObjectState::Dying).pack();
    let state_at = field!(set.slot, SemSlot, header.state);
    // Before any undo record is freed: no semaphore may still name it, and the write of a thread
    // that is late must fail.
    if let Err(fault) = close_semaphores(context, set) {
        let now = load_value(pool.map(), state_at);
        // Another thread may have been faster.
        return if now == Ok(dying) { Err(fault.into()) } else { Ok(()) };
    }
    // Each round but the last takes a waiter or an undo record away.
    let mut rounds = layout.threads.count + layout.undos.count + 1;
    loop {
        rounds = rounds
            .checked_sub(1)
            .ok_or(Fault::corrupt(set.slot, "a set that cannot be taken apart"))?;
        let mut wakes = WakeList::default();
        let mut freed = None;
        let finished = change::run(context, lock_context, set.lock(), "sem-dismantle", |txn| {
            wakes.clear();
            freed = None;
            if txn.get(state_at)? != dying {
                return Ok(true);
            }
            if !send_away(txn, layout, set, &mut wakes)? {
                return Ok(false);
            }
            let Some(record) = txn.get(field!(set.slot, SemSlot, undos))?.checked_sub(1) else {
                return Ok(true);
            };
            undo::close_all(txn, pool, set, record)?;
            freed = undo::unlink(txn, layout, set, record, context.client_id())?;
            Ok(false)
        })?;
        chunks::discard(context, lock_context, freed);
        doorbell::wake_listed(context, &wakes);
        if finished {
            break;
        }
    }
    change::run(context, lock_context, pool.registry_lock(), "sem-free", |txn| {
        if txn.get(state_at)? != dying {
            return Ok(());
        }
        table::leave_key(txn, layout, Kind::Semaphore, set.index)?;
        let unit = txn.get(field!(set.slot, SemSlot, words))?;
        heap::free_from_object(txn, layout, Chunk(unit))?;
        table::free_slot(txn, layout, Kind::Semaphore, set.index)?;
        table::end_task(txn, Kind::Semaphore, set.index)?;
        Ok(())
    })
}

/// Stages that the waiters of a removed set leave. False when there is no room for more.
fn send_away(
    txn: &mut Txn<'_>,
    layout: &Layout,
    set: &Set,
    wakes: &mut WakeList,
) -> Result<bool, Fault> {
    let mut more = false;
    wait_queue::walk(txn, layout, set.wait_queue(), |txn, slot| {
        if txn.remaining_entries() < 8 {
            more = true;
            return Ok(false);
        }
        let gone = result_of(Errno::IDRM);
        wait_queue::dequeue(txn, layout, set.wait_queue(), slot, WaitState::Done, gone)?;
        wakes.add(slot);
        Ok(true)
    })?;
    Ok(!more && txn.remaining_entries() >= 8)
}

/// Closes all semaphores of a removed set: no thread opens them again.
fn close_semaphores(context: &Context, set: &Set) -> Result<(), Fault> {
    let pool = context.pool();
    let mut highest = 0;
    for number in 0..set.count {
        highest = highest.max(set.semaphore(pool, number)?.close()?.tag);
    }
    tag_floor::raise(pool.map(), pool.layout(), highest)
}
