//! What is done to a set when a process has ended: its adjustments, and what it never came to know.

use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{ClientList, Fault, LockContext, Txn, load_value, load_word};
use vshmem_wire::{
    Adjustment, ClientId, ClientListHead, ClientSlot, INLINE_OPS, Place, RawCell, SemSlot, SemWord,
    SemaphoreWait, ThreadSlot, UndoSlot, WaitKind, WaitState, field,
};

use crate::context::Context;
use crate::error::{Failure, broken};
use crate::memory::chunks;
use crate::pool::clients::slot_of;
use crate::pool::id::ObjectSlot;
use crate::pool::open::Pool;
use crate::pool::tag_floor;
use crate::pool::threads::Dead;
use crate::registry::table::{self, SlotState};
use crate::sem::set::Set;
use crate::sem::under_lock::operations_of;
use crate::sem::{serve, undo};

/// Applies and frees one undo record, for a process that has ended.
pub(crate) fn apply_undo(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
    record: u32,
    client: ClientId,
    process_ref: u32,
) -> Result<(), Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    // Adjustments below this are zero, as an earlier round has left them.
    let mut from = 0;
    loop {
        let mut freed = None;
        let mut next = from;
        let finished = set.change(context, lock_context, "undo-apply", |txn| {
            freed = None;
            let slot_state = SlotState::unpack(txn.get(field!(set.slot, SemSlot, header.state))?);
            let same = undo::belongs(txn, layout, set, record, client)?;
            if !same || slot_state.sequence != set.sequence {
                return Ok(true);
            }
            let base = undo::adjustments(txn, layout, record)?;
            let behind = adjust(txn, pool, set, record, base, from, process_ref)?;
            if let Some(number) = behind {
                next = number;
                return Ok(false);
            }
            freed = undo::unlink(txn, layout, set, record, context.client_id())?;
            // Whatever there was to add: the end of a process operates on the set (`exit_sem` of
            // Linux).
            txn.update(field!(set.slot, SemSlot, header.operated), seconds_now())?;
            Ok(true)
        })?;
        chunks::discard(context, lock_context, freed);
        serve::serve_rest(context, lock_context, set)?;
        if finished {
            return Ok(());
        }
        from = next;
    }
}

/// Stages the adjustments of a record from semaphore `from` on, as many as fit into a change: the
/// first that did not, if any.
fn adjust(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    record: u32,
    base: Place<RawCell>,
    from: u32,
    process_ref: u32,
) -> Result<Option<u32>, Fault> {
    /// Semaphores adjusted in one change: two words each, and room for waiters.
    const AT_ONCE: usize = 8;
    let most = pool.geometry().semvmx as i32;
    let (mut adjusted, mut highest, mut behind) = (0, 0, None);
    txn.step(set.count)?;
    for number in from..set.count {
        // Closed whether there is anything to add or not: nothing may be left that names the
        // record once it is another's.
        let at = base.nth(u64::from(number));
        let semaphore = set.semaphore(pool, number)?;
        let closed = semaphore.close_adjustment(record, at)?;
        semaphore.forget(record)?;
        let total = Adjustment::unpack(closed.word).total;
        highest = highest.max(closed.tag);
        if total == 0 {
            continue;
        }
        if adjusted == AT_ONCE {
            behind = Some(number);
            break;
        }
        let (word_at, cell) = set.close(txn, pool, number)?;
        let value = SemWord::unpack(cell.word).value as i32 + i32::from(total);
        set.write(txn, word_at, cell, value.clamp(0, most) as u32, process_ref)?;
        // One more write: the floor that is raised below is above that, too.
        txn.replace_first(at, closed, Adjustment::of(0, true).pack())?;
        adjusted += 1;
    }
    tag_floor::raise(pool.map(), pool.layout(), highest)?;
    Ok(behind)
}

/// Takes back what was done for a waiter that died before it could know: the operations without
/// SEM_UNDO, as the others are undone with its adjustments. All of them or none: what they have
/// brought may have been taken by others meanwhile, and then they stay done, as with the kernel.
pub(crate) fn take_back(
    context: &Context,
    lock_context: &LockContext<'_>,
    dead: Dead,
    set: &Set,
) -> Result<(), Failure> {
    let pool = context.pool();
    let highest = pool.geometry().semvmx as i32;
    set.change(context, lock_context, "sem-take-back", |txn| {
        let at = dead.at;
        let map = txn.lock_context().map;
        let count =
            map.load(field!(at.semaphore_wait(), SemaphoreWait, count), Ordering::Relaxed)?;
        let sequence =
            map.load(field!(at.semaphore_wait(), SemaphoreWait, set_sequence), Ordering::Relaxed)?;
        let unseen = dead.has_unseen(txn, WaitKind::Semaphore, set.index)?
            && sequence == u64::from(set.sequence)
            && count <= INLINE_OPS as u64;
        if !unseen || !set.alive(txn)? {
            return Ok(());
        }
        let process_ref = txn.get(field!(at, ThreadSlot, process_ref))?;
        for operation in operations_of(map, at, count)?.into_iter().rev() {
            if operation.undo || operation.change == 0 {
                continue;
            }
            let (at, cell) = set.close(txn, pool, operation.number.into())?;
            let value = SemWord::unpack(cell.word).value as i32 - i32::from(operation.change);
            if !(0..=highest).contains(&value) {
                // None of the operations is taken back; that the waiter has been seen to is staged
                // below all the same.
                txn.clear();
                break;
            }
            set.write(txn, at, cell, value as u32, process_ref)?;
        }
        txn.set_state(field!(at, ThreadSlot, wait), WaitState::Idle)?;
        Ok(())
    })?;
    serve::serve_rest(context, lock_context, set)
}

/// Applies a client's adjustments. Its records stay with it, but serve no set any more.
pub(crate) fn apply_undos(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
    process_ref: u32,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, client)?, ClientSlot, undos);
    let mut client_list_head = ClientListHead::unpack(load_word(map, list)?);
    for _ in 0..=layout.undos.count {
        let Some(record) = client_list_head.last_of(client) else {
            return Ok(());
        };
        let at = layout.undos.row(record)?;
        client_list_head = ClientListHead::unpack(load_word(map, field!(at, UndoSlot, sibling))?);
        let set = load_value(map, field!(at, UndoSlot, set))?;
        if load_word(map, field!(at, UndoSlot, client))? != client.word() {
            // Another thread has freed it, and all behind it.
            return Ok(());
        }
        if let Some(index) = set.checked_sub(1).filter(|_| set != UndoSlot::TAKEN) {
            let slot = layout.sem.row(index)?;
            let slot_state = table::slot_state(map, slot.header())?;
            let object_slot = ObjectSlot { index, sequence: slot_state.sequence };
            let set = Set::read(context.pool(), object_slot, slot)?;
            apply_undo(context, lock_context, &set, record, client, process_ref)
                .map_err(broken(at))?;
        }
    }
    Err(Fault::corrupt(list, "a list of undo records without an end"))
}

/// Frees the undo records of a client that has ended, whose adjustments are applied.
pub(crate) fn free_undos(context: &Context, client: ClientId) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, client)?, ClientSlot, undos);
    let all = ClientList { map, list, client };
    for _ in 0..=layout.undos.count {
        let Some((head, record)) = all.last()? else { return Ok(()) };
        undo::forget_set(map, layout, record, client)?;
        all.give_up(head, undo::undo_list_entry(layout, record)?)?;
    }
    Err(Fault::corrupt(list, "a list of undo records without an end"))
}
