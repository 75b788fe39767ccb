//! Sleeping at a queue, and serving those who sleep.

use std::time::Duration;

use rustix::io::Errno;
use vshmem_mem::{Instant, signals_handled, sleep_shortly};
use vshmem_sync::{Fault, LockContext, SlotGuard, Txn, load_value};
use vshmem_wire::{MsgSlot, ObjectState, WaitState, field};

use crate::context::Context;
use crate::error::{Failure, broken};
use crate::memory::change;
use crate::msg::list::{find, retry, wake_senders};
use crate::msg::message::Search;
use crate::msg::queue::{Queue, at};
use crate::msg::remove;
use crate::wait::doorbell;
use crate::wait::sleep::{self, Woken};
use crate::wait::wait_queue::{WaitQueue, WakeList};

/// What ends a call's wait if no thread serves it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitsUntil {
    /// System V calls have none.
    pub deadline: Option<Instant>,
    /// A signal handler has run when there are more.
    pub signals_seen: u32,
}

/// How long a call waits that has to sleep, and has no thread slot for that.
const NO_SLOT: Duration = Duration::from_millis(4);

/// Whether a call failed under the lock because it has to sleep and was not given a slot for that.
/// It is to be tried again: queues have no error for it.
pub(crate) fn lacks_slot(failure: Failure, slot_guard: &SlotGuard<'_>) -> bool {
    failure == Failure::Fault(Fault::Refused(Errno::NOMEM.raw_os_error()))
        && !slot_guard.may_sleep()
}

/// Lets some time pass before a call is tried again that was not given a slot to sleep in. To be
/// called without any: those that wake others need them.
pub(crate) fn pause_without_slot(until: WaitsUntil) -> Result<(), Failure> {
    let left = until.deadline.map(|end| end.remaining(Instant::now()));
    sleep_shortly(left.unwrap_or(NO_SLOT).min(NO_SLOT));
    if signals_handled() != until.signals_seen {
        return Err(Errno::INTR.into());
    }
    let is_over = left.is_some_and(|left| left.is_zero());
    if is_over { Err(Errno::TIMEDOUT.into()) } else { Ok(()) }
}

/// Sleeps in a wait queue of the queue; `has_spun` says that it need not spin first.
pub(crate) fn sleep_at_queue(
    context: &Context,
    queue: &Queue,
    wait_queue: WaitQueue,
    has_spun: bool,
    until: WaitsUntil,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Woken, Failure> {
    let recover = || recover_queue(context, lock_context, queue).map_err(broken(queue.slot));
    sleep::sleep_in_wait_queue(
        context,
        slot_guard,
        wait_queue,
        has_spun,
        until.deadline,
        until.signals_seen,
        recover,
    )
    .map_err(Failure::from)
}

/// Repeats a change under the lock of a queue, and wakes the threads that it has taken off a wait
/// queue, until the change says that there is no more to do. Nothing to do once the queue has gone.
pub(crate) fn serve_all(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
    name: &'static str,
    mut serve: impl FnMut(&mut Txn<'_>, &mut WakeList) -> Result<bool, Fault>,
) -> Result<(), Failure> {
    // Each round but the last takes another thread off the wait queue.
    for _ in 0..=context.pool().layout().threads.count {
        let mut wakes = WakeList::default();
        let more = change::run(context, lock_context, queue.lock(), name, |txn| {
            wakes.clear();
            Ok(queue.alive(txn)? && serve(txn, &mut wakes)?)
        })?;
        doorbell::wake_listed(context, &wakes);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(queue.slot, "a wait queue without an end").into())
}

/// Sends receivers to try again for whom there is a message.
pub(crate) fn serve_receivers(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    serve_all(context, lock_context, queue, "msg-serve-receivers", |txn, wakes| {
        if txn.get(at!(queue, head))? == 0 {
            return Ok(false);
        }
        retry(txn, layout, queue.receivers(), wakes, WaitState::Retry, 0, |txn, at| {
            let map = txn.lock_context().map;
            Ok(find(txn, layout, queue, Search::of_waiter(map, at)?)?.is_some())
        })
    })
}

/// Sends senders to try again for whom there is room.
pub(crate) fn serve_senders(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    serve_all(context, lock_context, queue, "msg-serve", |txn, wakes| {
        wake_senders(txn, layout, queue, wakes)
    })
}

/// Recovers after a thread that died in the middle of a change: makes waiters retry, or continues
/// to take the queue apart.
pub(crate) fn recover_queue(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let map = context.pool().map();
    let state = load_value(map, field!(queue.slot, MsgSlot, header.state))?;
    if state == queue.state_word(ObjectState::Dying) {
        return remove::dismantle_queue(context, lock_context, queue);
    }
    serve_senders(context, lock_context, queue)?;
    serve_receivers(context, lock_context, queue)
}
