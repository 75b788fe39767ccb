//! Sleeping by address.

use rustix::io::Errno;
use vshmem_mem::tuning::recheck::{LOOKS_PER_RECOVERY, LOOKS_PER_SLOT_SEARCH};
use vshmem_mem::{Clock, Deadline, Instant, Ordering, fence, signals_handled, sleep_shortly};
use vshmem_sync::{Fault, SlotGuard, WaitEnd, claim_cell, load_value, with_lock};
use vshmem_wire::{AddressWait, Registry, ThreadSlot, WaitKind, field};

use crate::context::Context;
use crate::error::Failure;
use crate::futex::{Bucket, wake};
use crate::wait::sleep::polling_interval;
use crate::wait::sleep::{self, Woken};
use crate::wait::{wait_queue, waker_cpus};

/// Looks while `waits`, for about as long as a sleep costs. True once it does not wait any more.
/// `wakers`: threads that have to run until then.
pub(crate) fn spin(context: &Context, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool {
    context.spin.until(waker_cpus::wakers_cpu(context, wakers), || !waits())
}

/// Sleeps at the word at `offset` while `waits`, which is asked once more when this thread is in
/// the wait queue.
pub(crate) fn wait(
    context: &Context,
    offset: u64,
    waits: &mut dyn FnMut() -> bool,
    deadline: Option<Deadline>,
    signals_seen: u32,
) -> Result<WaitEnd, Failure> {
    let bucket = Bucket::of(context.pool().layout(), offset)?;
    wait_in(context, (bucket, offset), waits, deadline, signals_seen)
}

/// As [`wait`], in the wait queue of a bucket: for cells of the pool's own as well.
pub(crate) fn wait_in(
    context: &Context,
    (bucket, offset): (Bucket, u64),
    waits: &mut dyn FnMut() -> bool,
    deadline: Option<Deadline>,
    signals_seen: u32,
) -> Result<WaitEnd, Failure> {
    if !waits() {
        return Ok(WaitEnd::Changed);
    }
    if deadline.is_some_and(|deadline| deadline.remaining().is_zero()) {
        return Ok(WaitEnd::TimedOut);
    }
    let slot_guard = match poll_for_slot(context, waits, deadline, signals_seen)? {
        Polled::Slot(slot_guard) => slot_guard,
        Polled::Ended(end) => return Ok(end),
    };
    let end = deadline.map(|deadline| Instant::now().after(deadline.remaining()));
    let woken = loop {
        let at = (bucket, offset);
        let woken = sleep_in(context, &slot_guard, at, waits, end, signals_seen)?;
        // A client has ended. The thread that this does not concern sleeps on, and its caller does
        // not learn of it: a word that says that it is still to sleep says so to wakers as well.
        if woken != Some(Woken::Done(wake::CLIENT_ENDED)) || !waits() {
            break woken;
        }
    };
    Ok(match woken {
        None | Some(Woken::Retry) => WaitEnd::Changed,
        Some(Woken::Done(others)) => WaitEnd::Woken { more: others != 0 },
        Some(Woken::Interrupted) => WaitEnd::Interrupted,
        // The clock may have been set back meanwhile.
        Some(Woken::TimedOut) if deadline.is_some_and(goes_on) => WaitEnd::Changed,
        Some(Woken::TimedOut) => WaitEnd::TimedOut,
    })
}

/// What came first: a slot to sleep in, or the end of the wait.
enum Polled<'a> {
    Slot(SlotGuard<'a>),
    Ended(WaitEnd),
}

/// A slot to sleep in. While there is none, the thread cannot be found by those that wake others:
/// it polls its word.
fn poll_for_slot<'a>(
    context: &'a Context,
    waits: &mut dyn FnMut() -> bool,
    deadline: Option<Deadline>,
    signals_seen: u32,
) -> Result<Polled<'a>, Failure> {
    let mut looked = 0u32;
    loop {
        if looked.is_multiple_of(LOOKS_PER_SLOT_SEARCH) {
            match context.slot_guard_to_sleep() {
                Err(Failure::Errno(Errno::NOMEM)) => {}
                slot_guard => return Ok(Polled::Slot(slot_guard?)),
            }
        }
        if looked % LOOKS_PER_RECOVERY == LOOKS_PER_RECOVERY - 1 {
            context.watchdog();
        }
        let pause = polling_interval(looked);
        sleep_shortly(deadline.map_or(pause, |deadline| deadline.remaining().min(pause)));
        looked = looked.wrapping_add(1);
        // Before the deadline: what has come in time counts.
        if !waits() {
            return Ok(Polled::Ended(WaitEnd::Changed));
        }
        if signals_handled() != signals_seen {
            return Ok(Polled::Ended(WaitEnd::Interrupted));
        }
        if deadline.is_some_and(|deadline| deadline.remaining().is_zero()) {
            return Ok(Polled::Ended(WaitEnd::TimedOut));
        }
    }
}

fn goes_on(deadline: Deadline) -> bool {
    deadline.clock == Clock::Realtime && !deadline.remaining().is_zero()
}

/// `None`: the word has changed before this thread slept.
fn sleep_in(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    (bucket, offset): (Bucket, u64),
    waits: &mut dyn FnMut() -> bool,
    end: Option<Instant>,
    signals_seen: u32,
) -> Result<Option<Woken>, Fault> {
    note_use(context)?;
    enter(context, slot_guard, bucket, offset)?;
    // Barrier ADDRESS of `vshmem_sync::process_shared`: the look at the word comes after this
    // thread can be found. Pairs with the fence in `wake`.
    fence(Ordering::SeqCst);
    if !waits() {
        let left = sleep::leave_wait_queue(context, slot_guard, bucket.wait_queue())?;
        if matches!(left, Some(Woken::Done(_))) {
            // This thread needed no wake-up, and may not come back for what that one was for: it
            // was meant for one that sleeps.
            wake::pass_on(context, slot_guard, bucket, offset)?;
        }
        return Ok(left);
    }
    let nothing = || Ok(());
    let wait_queue = bucket.wait_queue();
    sleep::sleep_in_wait_queue(context, slot_guard, wait_queue, true, end, signals_seen, nothing)
        .map(Some)
}

/// From now on the end of a client wakes those who sleep by address.
fn note_use(context: &Context) -> Result<(), Fault> {
    let map = context.pool().map();
    let at = field!(context.pool().layout().registry, Registry, futexes_used);
    if load_value(map, at)? == 0 {
        claim_cell(map, at, 0, 1)?;
    }
    Ok(())
}

fn enter(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    bucket: Bucket,
    offset: u64,
) -> Result<(), Fault> {
    let (layout, slot) = (context.pool().layout(), slot_guard.slot);
    let at = layout.threads.row(slot)?;
    let wait_queue = bucket.wait_queue();
    let process_ref = context.process_ref().pack();
    with_lock(context.lock_context_of(slot_guard), wait_queue.lock, "futex-wait", |txn| {
        // A plain word: no thread reads it before the slot is in a wait queue.
        let map = txn.lock_context().map;
        map.store(field!(at.address_wait(), AddressWait, offset), offset, Ordering::Relaxed)?;
        txn.update(field!(at, ThreadSlot, process_ref), process_ref)?;
        wait_queue::enqueue(txn, layout, wait_queue, slot_guard, WaitKind::Address, bucket.index)
    })
}
