//! Sleeping in a wait queue.

use vshmem_mem::tuning::recheck::{LOOKS_PER_RECOVERY, NOTIFIABLE};
use vshmem_mem::{Instant, Ordering, hide_waiter, signals_handled, take_waiter};
use vshmem_sync::{Fault, LockContext, ParkResult, SlotGuard, field, load_value, park, with_lock};
use vshmem_wire::{ThreadSlot, WaitCounts, WaitState};

use crate::context::Context;
use crate::pool::threads::thread_at;
use crate::registry::table;
use crate::wait::wait_queue::{WaitQueue, dequeue};
use crate::wait::{doorbell, waker_cpus};

/// Sleeps in `wait_queue` until another thread writes the wait cell of `slot_guard`, the deadline
/// passes, or a signal handler runs. In each case the thread is in no wait queue afterwards.
///
/// `recover` is called now and then, outside any lock: a chance to notice what a waker that died
/// has left undone.
///
/// `has_spun`: this thread need not spin before it sleeps.
pub(crate) fn sleep_in_wait_queue(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
    has_spun: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    recover: impl FnMut() -> Result<(), Fault>,
) -> Result<Woken, Fault> {
    count(context, slot_guard, |counts| counts.waits = counts.waits.wrapping_add(1))?;
    let woken = sleep_until(context, slot_guard, has_spun, deadline, signals_seen, recover);
    let ended = end_sleep(context, slot_guard, wait_queue, woken);
    if matches!(ended, Ok(Woken::Done(_) | Woken::Retry)) {
        count(context, slot_guard, |counts| counts.wakeups = counts.wakeups.wrapping_add(1))?;
    }
    // Only now: a handler that does not return must not leave a thread in the wait queue.
    hide_waiter();
    ended
}

/// Takes a thread out of the wait queue that it has just entered, because it need not sleep.
/// Returns what another thread has done for it meanwhile, if one has.
pub(crate) fn leave_wait_queue(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
) -> Result<Option<Woken>, Fault> {
    let lock_context = context.lock_context_of(slot_guard);
    let left = leave_one(context, &lock_context, wait_queue, slot_guard.slot);
    let acted = match left {
        Ok(true) => Ok(None),
        Ok(false) => wait_result(context, slot_guard).map(Some),
        Err(fault) => Err(fault),
    };
    hide_waiter();
    acted
}

/// Counts a wait, or its end. Only this thread writes the word.
fn count(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    raise: impl FnOnce(&mut WaitCounts),
) -> Result<(), Fault> {
    let map = context.pool().map();
    let at = thread_at(context.pool().layout(), slot_guard.slot)?;
    let counts_at = field!(at, ThreadSlot, waits);
    let mut counts = WaitCounts::unpack(map.load(counts_at, Ordering::Relaxed)?);
    raise(&mut counts);
    Ok(map.store(counts_at, counts.pack(), Ordering::Relaxed)?)
}

/// Takes the thread out of the wait queue, however its sleep has ended.
fn end_sleep(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
    woken: Result<Option<Woken>, Fault>,
) -> Result<Woken, Fault> {
    let lock_context = context.lock_context_of(slot_guard);
    let left = match woken {
        Ok(None) => return wait_result(context, slot_guard),
        Ok(Some(reason)) => leave_one(context, &lock_context, wait_queue, slot_guard.slot)
            .map(|left| (left, reason)),
        Err(fault) => {
            let _ = leave_one(context, &lock_context, wait_queue, slot_guard.slot);
            Err(fault)
        }
    };
    match left {
        Ok((true, reason)) => Ok(reason),
        Ok((false, _)) => wait_result(context, slot_guard),
        // The thread that reaps this process finds the thread in its wait queue, and takes it out.
        Err(Fault::Evicted) => Err(Fault::Evicted),
        Err(fault) => {
            // The wait queue is corrupt: at least this thread can no longer be found in it.
            let _ = wait_result(context, slot_guard);
            Err(fault)
        }
    }
}

/// To be called as a signal handler is entered: a call that it has interrupted is over, as far
/// as others can see, before the handler runs.
pub(crate) fn interrupt(context: &Context) {
    let Some((wait_queue, slot)) = take_waiter().map(WaitQueue::taken) else { return };
    // A call that ended without a sleep may have noted a wait queue that it never entered. Its slot
    // may belong to another thread by now, or to no thread. The noted offset is checked as well, so
    // that nothing but a lock is taken as one.
    if !context.slot_cache.is_mine(slot) || !table::is_lock(context, wait_queue.lock) {
        return;
    }
    if let Ok(slot_guard) = context.slot_guard() {
        // The waiter itself finds out how it stands when it goes on.
        let _ = leave_one(context, &context.lock_context_of(&slot_guard), wait_queue, slot);
    }
}

/// Takes a waiter off its wait queue, if no thread has acted on it yet.
fn leave_one(
    context: &Context,
    lock_context: &LockContext<'_>,
    wait_queue: WaitQueue,
    slot: u32,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let at = thread_at(layout, slot)?;
    with_lock(*lock_context, wait_queue.lock, "dequeue", |txn| {
        let waits = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32;
        if waits {
            dequeue(txn, layout, wait_queue, slot, WaitState::Idle, 0)?;
        }
        Ok(waits)
    })
}

/// Sleeps until the wait cell says something else than *waiting* (`None`), or for another
/// reason.
fn sleep_until(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    has_spun: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    mut recover: impl FnMut() -> Result<(), Fault>,
) -> Result<Option<Woken>, Fault> {
    let map = context.pool().map();
    let at = thread_at(context.pool().layout(), slot_guard.slot)?;
    let wait_at = field!(at, ThreadSlot, wait);
    let waiting = || {
        map.load(wait_at, Ordering::SeqCst)
            .is_ok_and(|word| word as u32 == WaitState::Waiting as u32)
    };
    // A thread that has others ahead will not be served within a spin's time, and the CPU is better
    // left to them.
    let is_first = load_value(map, field!(at, ThreadSlot, previous))? == 0;
    if !has_spun && is_first {
        let interrupted = || signals_handled() != signals_seen;
        context.spin.until(waker_cpus::waker_cpu(context), || interrupted() || !waiting());
        if !waiting() {
            return Ok(None);
        }
    }
    let mut looked = 0;
    let mut meter = context.spin.measure_sleep();
    loop {
        let (recheck, second_word) = doorbell::recheck(context, looked);
        let words = &context.waking.words;
        let slot = slot_guard.slot;
        let park_result =
            park(words, slot, deadline, recheck, second_word, signals_seen, || !waiting())?;
        meter.slept_once();
        match park_result {
            ParkResult::Interrupted => return Ok(Some(Woken::Interrupted)),
            ParkResult::TimedOut => return Ok(Some(Woken::TimedOut)),
            ParkResult::Recheck | ParkResult::Changed if waiting() => {
                looked += 1;
                if recheck >= NOTIFIABLE || looked.is_multiple_of(LOOKS_PER_RECOVERY) {
                    recover()?;
                    // The thread that evicted this domain may have ended before it came to this
                    // client.
                    if !context.is_in_active_domain()? {
                        return Err(Fault::Evicted);
                    }
                    context.watchdog();
                }
            }
            ParkResult::Recheck | ParkResult::Changed => {
                meter.woken();
                return Ok(None);
            }
        }
    }
}

/// What the wait cell says now, made idle again.
pub(crate) fn wait_result(context: &Context, slot_guard: &SlotGuard<'_>) -> Result<Woken, Fault> {
    let map = context.pool().map();
    let at = thread_at(context.pool().layout(), slot_guard.slot)?;
    let state = load_value(map, field!(at, ThreadSlot, wait))?;
    if state == WaitState::Idle as u32 {
        // A signal handler has taken this waiter off its wait queue as it was entered.
        return Ok(Woken::Interrupted);
    }
    let result = load_value(map, field!(at, ThreadSlot, result))?;
    vshmem_sync::claim_cell(map, field!(at, ThreadSlot, wait), state, 0)?;
    Ok(if state == WaitState::Done as u32 { Woken::Done(result) } else { Woken::Retry })
}

/// How a sleep ended for the caller of a blocking operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The work has been done on its behalf, with this errno (0: success).
    Done(u32),
    /// Worth another try.
    Retry,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}
