//! Sleeping in a wait queue.

use std::time::Duration;

use vshmem_mem::{Instant, Ordering, hide_sleeper, signals_handled, take_sleeper};
use vshmem_sync::{Desk, Fault, Parked, Seat, field, load_value, park, with_lock};
use vshmem_wire::{ThreadSlot, WaitState};

use crate::context::Context;
use crate::pool::threads::thread_at;
use crate::registry::table;
use crate::wait::wait_queue::{Line, leave_line};
use crate::wait::{doorbell, waker_cpus};

/// Sleeps in `line` until somebody acts on the wait cell of `seat`, the deadline passes, or a
/// signal handler runs. Whatever it is, the thread is in no line afterwards.
///
/// `tend` is called now and then, outside any lock: a chance to notice what a waker that died
/// has left undone.
///
/// `has_looked`: this thread need not look before it sleeps.
pub(crate) fn sleep_in_line(
    context: &Context,
    seat: &Seat<'_>,
    line: Line,
    has_looked: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    tend: impl FnMut() -> Result<(), Fault>,
) -> Result<Woken, Fault> {
    let woken = sleep_until(context, seat, has_looked, deadline, signals_seen, tend);
    let ended = end_sleep(context, seat, line, woken);
    // Only now: a handler that does not come back must not leave anybody in the line.
    hide_sleeper();
    ended
}

/// Takes the thread out of the line, however its sleep has ended.
fn end_sleep(
    context: &Context,
    seat: &Seat<'_>,
    line: Line,
    woken: Result<Option<Woken>, Fault>,
) -> Result<Woken, Fault> {
    let desk = context.desk_of(seat);
    let left = match woken {
        Ok(None) => return wait_result(context, seat),
        Ok(Some(reason)) => leave_one(context, &desk, line, seat.slot).map(|left| (left, reason)),
        Err(fault) => {
            let _ = leave_one(context, &desk, line, seat.slot);
            Err(fault)
        }
    };
    match left {
        Ok((true, reason)) => Ok(reason),
        Ok((false, _)) => wait_result(context, seat),
        // Whoever buries this process finds the thread in its line, and takes it out.
        Err(Fault::Evicted) => Err(Fault::Evicted),
        Err(fault) => {
            // The line makes no sense: at least nobody finds this thread in it any more.
            let _ = wait_result(context, seat);
            Err(fault)
        }
    }
}

/// To be called as a signal handler is entered: a call that it has interrupted is over, as far
/// as others can see, before the handler runs.
pub(crate) fn interrupt(context: &Context) {
    let Some((line, slot)) = take_sleeper().map(Line::taken) else { return };
    // A call that came to its end without a sleep may have left word of a line that it never
    // joined; its slot is not this thread's any more then. And whatever stands there: what is no
    // lock is never taken for one.
    if !context.seats.is_mine(slot) || !table::is_lock(context, line.lock) {
        return;
    }
    if let Ok(seat) = context.seat() {
        // The sleeper itself finds out how it stands when it goes on.
        let _ = leave_one(context, &context.desk_of(&seat), line, slot);
    }
}

/// Takes a sleeper off its line, if nobody has acted on it yet.
fn leave_one(context: &Context, desk: &Desk<'_>, line: Line, slot: u32) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let at = thread_at(layout, slot)?;
    with_lock(*desk, line.lock, "give-up", |txn| {
        let waits = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32;
        if waits {
            leave_line(txn, layout, line, slot, WaitState::Idle, 0)?;
        }
        Ok(waits)
    })
}

/// Sleeps until the wait cell says something else than *waiting* (`None`), or for another
/// reason.
fn sleep_until(
    context: &Context,
    seat: &Seat<'_>,
    has_looked: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    mut tend: impl FnMut() -> Result<(), Fault>,
) -> Result<Option<Woken>, Fault> {
    let map = context.pool().map();
    let at = thread_at(context.pool().layout(), seat.slot)?;
    let wait_at = field!(at, ThreadSlot, wait);
    let waiting = || {
        map.load(wait_at, Ordering::SeqCst)
            .is_ok_and(|word| word as u32 == WaitState::Waiting as u32)
    };
    // Who has others ahead will not be served within a spin's time, and the CPU is better left to
    // them.
    let is_first = load_value(map, field!(at, ThreadSlot, previous))? == 0;
    if !has_looked && is_first {
        let interrupted = || signals_handled() != signals_seen;
        context.spin.until(waker_cpus::answerer(context), || interrupted() || !waiting());
        if !waiting() {
            return Ok(None);
        }
    }
    let mut looked = 0;
    let mut meter = context.spin.measure_sleep();
    loop {
        let (recheck, beside) = doorbell::recheck(context, looked);
        let words = &context.words;
        let slot = seat.slot;
        let parked = park(words, slot, deadline, recheck, beside, signals_seen, || !waiting())?;
        meter.slept_once();
        match parked {
            Parked::Interrupted => return Ok(Some(Woken::Interrupted)),
            Parked::TimedOut => return Ok(Some(Woken::TimedOut)),
            Parked::Recheck | Parked::Changed if waiting() => {
                looked += 1;
                if recheck >= Duration::from_millis(1000) || looked % 256 == 0 {
                    tend()?;
                    context.vigil();
                }
            }
            Parked::Recheck | Parked::Changed => {
                meter.woken();
                return Ok(None);
            }
        }
    }
}

/// What the wait cell says now, made idle again.
pub(crate) fn wait_result(context: &Context, seat: &Seat<'_>) -> Result<Woken, Fault> {
    let map = context.pool().map();
    let at = thread_at(context.pool().layout(), seat.slot)?;
    let state = load_value(map, field!(at, ThreadSlot, wait))?;
    if state == WaitState::Idle as u32 {
        // A signal handler has taken this sleeper off its line as it was entered.
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
