//! semop(2) without the lock.

use rustix::io::Errno;
use vshmem_mem::{Map, seconds_now};
use vshmem_sync::{Fault, Operated, SemaphoreArray, load_value};
use vshmem_wire::{Operation, SemSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::registry::permission::{Caller, Permission, READ, WRITE};
use crate::sem::set::Set;
use crate::sem::undo;

/// Whether there are these semaphores, and the caller may operate on them.
#[inline(always)]
pub(crate) fn may_operate<C: Caller>(
    context: &Context,
    set: &Set,
    operations: &[Operation],
    caller: &C,
) -> Result<(), Failure> {
    if operations.iter().any(|operation| u32::from(operation.number) >= set.count) {
        return Err(Errno::FBIG.into());
    }
    let alters = operations.iter().any(|operation| operation.change != 0);
    let wanted = if alters { WRITE } else { READ };
    Ok(Permission::check(context.pool().map(), set.slot.header(), caller, wanted)??)
}

/// Without the lock, if that will do. `None`: it will not.
#[inline(always)]
pub(crate) fn semop_fast(
    context: &Context,
    set: &Set,
    operation: &Operation,
) -> Result<Option<Result<(), Errno>>, Fault> {
    let pool = context.pool();
    let map = pool.map();
    let operated = if operation.undo && operation.change != 0 {
        operate_undoable(context, set, operation.number.into(), operation.change)?
    } else {
        let semaphore = set.semaphore(pool, operation.number.into())?;
        if operation.change > 0 {
            // Nearly always done: who waits has read the cache line last, or written it.
            map.will_write(semaphore.at);
        }
        // Looked at after the cells, so that they were the set's when they were read: memory that
        // has become something else since refuses the swap by its tag. What cannot be read does not
        // stand: the slow path says why.
        let is_current = || Ok(context.is_current() && set.is_current_in(map).unwrap_or(false));
        let highest = pool.geometry().semvmx;
        semaphore.operate(operation.change, highest, context.process_ref().pack(), is_current)?
    };
    match operated {
        Operated::Done => {}
        Operated::Blocks => return Ok(operation.no_wait.then_some(Err(Errno::AGAIN))),
        Operated::TooHigh => return Ok(Some(Err(Errno::RANGE))),
        Operated::Closed => return Ok(None),
    }
    stamp(map, set)?;
    Ok(Some(Ok(())))
}

/// One operation with SEM_UNDO, without the lock. One function for all who try one, so that what it
/// asks between its reads and its swaps is asked in place.
#[inline(never)]
fn operate_undoable(
    context: &Context,
    set: &Set,
    number: u32,
    change: i16,
) -> Result<Operated, Fault> {
    let pool = context.pool();
    let map = pool.map();
    let semaphore = set.semaphore(pool, number)?;
    let Some(known) = undo::known_undo_record(context, set)? else { return Ok(Operated::Closed) };
    let me = context.client_id();
    let at = known.base.nth(u64::from(number));
    // As for an operation without SEM_UNDO.
    let is_current = || {
        let is_there = context.is_current() && set.is_current_in(map).unwrap_or(false);
        Ok(is_there && known.is_of(me, set))
    };
    semaphore.operate_undoable(change, pool.geometry().semvmx, known.record, at, is_current)
}

/// Several operations without the lock. False: that will not do.
#[inline]
pub(crate) fn semop_array_fast(
    context: &Context,
    set: &Set,
    operations: &[Operation],
) -> Result<bool, Fault> {
    let pool = context.pool();
    let map = pool.map();
    let mut wanted = arrayvec::ArrayVec::<(u16, i16), FEW>::new();
    for operation in operations {
        // An adjustment for each as well: that is what the lock is for.
        if operation.undo && operation.change != 0 {
            return Ok(false);
        }
        wanted.push((operation.number, operation.change));
    }
    let array = SemaphoreArray {
        map,
        at: field!(set.slot, SemSlot, array),
        find: |number| set.semaphore(pool, number),
    };
    let is_current = || Ok(context.is_current() && set.is_current_in(map).unwrap_or(false));
    let highest = pool.geometry().semvmx;
    let operated = array.operate(&wanted, highest, context.process_ref().pack(), is_current)?;
    if operated != Operated::Done {
        return Ok(false);
    }
    stamp(map, set)?;
    Ok(true)
}

/// Writes down when the set was operated on. Not part of the step: a clock of whole seconds; the
/// last writer wins.
#[inline(always)]
fn stamp(map: &Map, set: &Set) -> Result<(), Fault> {
    let stamp = field!(set.slot, SemSlot, header.operated);
    let now = seconds_now();
    let before = load_value(map, stamp)?;
    if before != now {
        vshmem_sync::claim_cell(map, stamp, before, now)?;
    }
    Ok(())
}

/// Operations that are tried without the lock, at most.
pub(crate) const FEW: usize = 8;
