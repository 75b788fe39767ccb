//! Sleeping at a queue, and serving those who sleep.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, LockContext, SlotGuard, field, load_value};
use vshmem_wire::{ObjectHeader, ObjectState, ThreadSlot, WaitState};

use crate::context::Context;
use crate::error::{Failure, to_errno};
use crate::memory::change;
use crate::msg::list::{find, retry, wake_senders};
use crate::msg::message::Search;
use crate::msg::queue::{Queue, at};
use crate::msg::remove;
use crate::wait::doorbell;
use crate::wait::sleep::{self, Woken};
use crate::wait::wait_queue::{WaitQueue, WakeList};

/// Sleeps in a wait queue of the queue; `has_looked` says that it need not look for a while first.
pub(crate) fn sleep_at_queue(
    context: &Context,
    queue: &Queue,
    wait_queue: WaitQueue,
    has_looked: bool,
    signals_seen: u32,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Woken, Failure> {
    let recover = || match recover_queue(context, lock_context, queue) {
        Ok(()) => Ok(()),
        Err(_) => Err(Fault::corrupt(queue.slot, "a queue that cannot be served")),
    };
    sleep::sleep_in_wait_queue(
        context,
        slot_guard,
        wait_queue,
        has_looked,
        None,
        signals_seen,
        recover,
    )
    .map_err(Failure::from)
}

/// Sends receivers to try again for whom there is a message.
pub(crate) fn serve_receivers(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    // Each round but the last takes another thread off the wait queue; so in those below.
    for _ in 0..=layout.threads.count {
        let mut wakes = WakeList::default();
        let step = change::run(context, lock_context, queue.lock(), "msg-serve-receivers", |txn| {
            wakes.clear();
            if !queue.alive(txn)? || txn.get(at!(queue, head))? == 0 {
                return Ok(Ok(false));
            }
            let wait_queue = queue.receivers();
            let again = WaitState::Retry;
            let more = retry(txn, layout, wait_queue, &mut wakes, again, 0, |txn, at| {
                let map = txn.lock_context().map;
                let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
                let mtype = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
                Ok(find(txn, layout, queue, Search::unpack(mode, mtype))?.is_some())
            })?;
            Ok(Ok(more))
        });
        let more = to_errno(step)?;
        doorbell::wake_all(context, &wakes);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(queue.slot, "a wait queue without an end").into())
}

pub(crate) fn serve_senders(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    for _ in 0..=layout.threads.count {
        let mut wakes = WakeList::default();
        let step = change::run(context, lock_context, queue.lock(), "msg-serve", |txn| {
            wakes.clear();
            if !queue.alive(txn)? {
                return Ok(Ok(false));
            }
            wake_senders(txn, layout, queue, &mut wakes).map(Ok)
        });
        let more = to_errno(step)?;
        doorbell::wake_all(context, &wakes);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(queue.slot, "a wait queue without an end").into())
}

/// Recovers after a thread that died in the middle of a change: makes waiters retry, or continues
/// to take the queue apart.
pub(crate) fn recover_queue(
    context: &Context,
    lock_context: &LockContext<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let map = context.pool().map();
    let state = load_value(map, field!(queue.slot, ObjectHeader, state))?;
    if state == queue.state_word(ObjectState::Dying) {
        return remove::dismantle_queue(context, lock_context, queue);
    }
    serve_senders(context, lock_context, queue)?;
    serve_receivers(context, lock_context, queue)
}
