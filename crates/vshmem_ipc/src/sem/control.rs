//! semctl(2): values.

use rustix::io::Errno;
use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::load_word;
use vshmem_wire::{Adjustment, SemSlot, SemWord, ThreadSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::registry::permission::{Caller, Permission, READ, WRITE};
use crate::sem::set::{self, Set};
use crate::sem::{serve, undo};
use crate::wait::wait_queue::{self, WakeList};

/// GETVAL.
///
/// In the place of its call, and every failure in the other part: a result that can be a failure is
/// returned in memory, and who reads it waits until it lies there.
#[inline(always)]
pub(crate) fn semaphore_value(
    context: &Context,
    id: i32,
    number: i32,
    caller: &dyn Caller,
) -> Result<u32, Failure> {
    match plain_value(context, id, number, caller) {
        Some(value) => Ok(value),
        None => decided_value(context, id, number, caller),
    }
}

/// The value, if nothing is in the way of reading it.
#[inline(always)]
fn plain_value(context: &Context, id: i32, number: i32, caller: &dyn Caller) -> Option<u32> {
    let (set, number) = look_up_readable(context, id, number, caller).ok()?;
    let at = set.word(number).ok()?;
    let word = SemWord::unpack(context.pool().map().load(at.word(), Ordering::Acquire).ok()?);
    (!word.tentative).then_some(word.value)
}

/// Why there is no value, or the value of a semaphore that an array of operations has written. It
/// looks the set up again: one that is handed on by reference lies in memory, and GETVAL waits
/// until it does.
#[cold]
#[inline(never)]
fn decided_value(
    context: &Context,
    id: i32,
    number: i32,
    caller: &dyn Caller,
) -> Result<u32, Failure> {
    let (set, number) = readable(context, id, number, caller)?;
    Ok(set.semaphore(context.pool(), number)?.read()?.0.value)
}

/// GETPID: the last process to operate on a semaphore.
pub(crate) fn semaphore_pid(
    context: &Context,
    id: i32,
    number: i32,
    caller: &dyn Caller,
) -> Result<u32, Failure> {
    let (set, number) = readable(context, id, number, caller)?;
    Ok(context.pid_here(set.semaphore(context.pool(), number)?.read()?.1))
}

/// A set that the caller may read, and one of its semaphores.
fn readable(
    context: &Context,
    id: i32,
    number: i32,
    caller: &dyn Caller,
) -> Result<(Set, u32), Failure> {
    look_up_readable(context, id, number, caller)
}

/// As `readable`, in registers: a set that is returned is stored in words and copied in pairs of
/// them, which waits for the stores.
#[inline(always)]
fn look_up_readable(
    context: &Context,
    id: i32,
    number: i32,
    caller: &dyn Caller,
) -> Result<(Set, u32), Failure> {
    let set = set::find(context, id)?;
    Permission::check(context.pool().map(), set.slot.header(), caller, READ)??;
    let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
    Ok((set, number))
}

/// GETNCNT (`zero` false) and GETZCNT: waiters blocked at a semaphore.
pub(crate) fn semaphore_waiters(
    context: &Context,
    id: i32,
    number: i32,
    zero: bool,
    caller: &dyn Caller,
) -> Result<u32, Failure> {
    let (set, number) = readable(context, id, number, caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let layout = context.pool().layout();
    let wanted = number | u32::from(zero) << 31;
    change::decide(context, &lock_context, set.lock(), "sem-count", |txn| {
        if !set.alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        let mut count = 0;
        wait_queue::walk(txn, layout, set.wait_queue(), |txn, slot| {
            let blocked = txn.get(field!(layout.threads.row(slot)?, ThreadSlot, blocked))?;
            count += u32::from(blocked == wanted);
            Ok(true)
        })?;
        Ok(Commit(count))
    })
}

/// GETALL: copies all values out.
pub(crate) fn semaphore_values(
    context: &Context,
    id: i32,
    caller: &dyn Caller,
    mut each: impl FnMut(usize, u16),
) -> Result<(), Failure> {
    let set = set::set_of_size(context, id)?;
    Permission::check(context.pool().map(), set.slot.header(), caller, READ)??;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, set.lock(), "sem-getall", |txn| {
        if !set.alive(txn)? {
            return Ok(Abandon(Errno::IDRM));
        }
        // Closed first, so that no fast operation comes between two reads.
        for number in 0..set.count {
            if set.count > 1 {
                set.close(txn, context.pool(), number)?;
            }
        }
        for number in 0..set.count {
            let word = SemWord::unpack(txn.get_word(set.word(number)?)?);
            each(number as usize, word.value as u16);
        }
        Ok(Commit(()))
    })
}

/// SETVAL.
pub(crate) fn set_semaphore(
    context: &Context,
    id: i32,
    number: i32,
    value: i32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    // The kernel looks at the value before anything else (semctl_setval).
    if value < 0 || value > context.pool().geometry().semvmx as i32 {
        return Err(Errno::RANGE.into());
    }
    let set = set::find(context, id)?;
    let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
    set::permission(context, &set)?.allow(caller, WRITE)?;
    write_values(context, &set, "sem-setval", &|at| (at == number).then_some(value as u32))
}

/// SETALL.
pub(crate) fn set_semaphores(
    context: &Context,
    id: i32,
    values: &dyn Fn(usize) -> u16,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let set = set::set_of_size(context, id)?;
    set::permission(context, &set)?.allow(caller, WRITE)?;
    let highest = context.pool().geometry().semvmx;
    if (0..set.count as usize).any(|number| u32::from(values(number)) > highest) {
        return Err(Errno::RANGE.into());
    }
    write_values(context, &set, "sem-setall", &|at| Some(u32::from(values(at as usize))))
}

/// Number of semaphores in a set, for callers that have to size a buffer.
pub(crate) fn semaphore_count(context: &Context, id: i32) -> Result<usize, Failure> {
    Ok(set::set_of_size(context, id)?.count as usize)
}

fn write_values(
    context: &Context,
    set: &Set,
    name: &'static str,
    value: &dyn Fn(u32) -> Option<u32>,
) -> Result<(), Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let process_ref = context.process_ref().pack();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut wakes = WakeList::default();
    set.decide(context, &lock_context, name, |txn| {
        wakes.clear();
        if !set.alive(txn)? {
            return Ok(Abandon(Errno::IDRM));
        }
        let waiters = txn.get(field!(set.slot, SemSlot, waiting))? != 0;
        for number in (0..set.count).filter(|&number| value(number).is_some()) {
            // Nothing is staged for these words yet, so the pool's own word is the one.
            let semaphore = set.semaphore(pool, number)?;
            let next = SemWord::of(value(number).unwrap_or(0), process_ref, waiters);
            txn.replace_first(semaphore.at, semaphore.close()?, next.pack())?;
        }
        undo::walk(txn, layout, set, |txn, record| {
            let base = undo::adjustments(txn, layout, record)?;
            txn.step(set.count)?;
            for number in (0..set.count).filter(|&number| value(number).is_some()) {
                let at = base.nth(u64::from(number));
                let seen = Adjustment::unpack(load_word(txn.lock_context().map, at)?);
                if seen.total == 0 && !seen.is_prepared && !seen.closed {
                    continue;
                }
                let closed = set.semaphore(pool, number)?.close_adjustment(record, at)?;
                txn.replace_first(at, closed, Adjustment::of(0, false).pack())?;
            }
            Ok(true)
        })?;
        txn.update(field!(set.slot, SemSlot, header.changed), seconds_now())?;
        Ok(Commit(()))
    })?;
    serve::serve_rest(context, &lock_context, set)
}
