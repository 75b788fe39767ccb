//! Sleeping at a queue, and serving those who sleep.

use vshmem_mem::Ordering;
use vshmem_sync::{Desk, Fault, Seat, field, load_value};
use vshmem_wire::{ObjectHeader, ObjectState, ThreadSlot, WaitState};

use crate::context::Context;
use crate::error::{Failure, settle};
use crate::memory::change;
use crate::msg::list::{find, retry, wake_senders};
use crate::msg::message::Search;
use crate::msg::queue::{Queue, at};
use crate::msg::remove;
use crate::wait::doorbell;
use crate::wait::sleep::{self, Woken};
use crate::wait::wait_queue::{Line, Rings};

/// Sleeps in a line of the queue; `has_looked` says that it need not look for a while first.
pub(crate) fn sleep_at_queue(
    context: &Context,
    queue: &Queue,
    line: Line,
    has_looked: bool,
    signals_seen: u32,
    desk: &Desk<'_>,
    seat: &Seat<'_>,
) -> Result<Woken, Failure> {
    let tend = || match tend_queue(context, desk, queue) {
        Ok(()) => Ok(()),
        Err(_) => Err(Fault::corrupt(queue.slot, "a queue that cannot be served")),
    };
    sleep::sleep_in_line(context, seat, line, has_looked, None, signals_seen, tend)
        .map_err(Failure::from)
}

/// Sends receivers to try again for whom there is a message.
pub(crate) fn serve_receivers(
    context: &Context,
    desk: &Desk<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    // Each round but the last takes somebody off the line; so in those below.
    for _ in 0..=layout.threads.count {
        let mut rings = Rings::default();
        let step = change::run(context, desk, queue.lock(), "msg-serve-receivers", |txn| {
            rings.clear();
            if !queue.alive(txn)? || txn.get(at!(queue, head))? == 0 {
                return Ok(Ok(false));
            }
            let line = queue.receivers();
            let again = WaitState::Retry;
            let more = retry(txn, layout, line, &mut rings, again, 0, |txn, at| {
                let map = txn.desk().map;
                let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
                let kind = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
                Ok(find(txn, layout, queue, Search::unpack(mode, kind))?.is_some())
            })?;
            Ok(Ok(more))
        });
        let more = settle(step)?;
        doorbell::ring_all(context, &rings);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(queue.slot, "a wait queue without an end").into())
}

pub(crate) fn serve_senders(
    context: &Context,
    desk: &Desk<'_>,
    queue: &Queue,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    for _ in 0..=layout.threads.count {
        let mut rings = Rings::default();
        let step = change::run(context, desk, queue.lock(), "msg-serve", |txn| {
            rings.clear();
            if !queue.alive(txn)? {
                return Ok(Ok(false));
            }
            wake_senders(txn, layout, queue, &mut rings).map(Ok)
        });
        let more = settle(step)?;
        doorbell::ring_all(context, &rings);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(queue.slot, "a wait queue without an end").into())
}

/// Makes up for somebody who died halfway: sends sleepers to try again, or goes on taking the
/// queue apart.
pub(crate) fn tend_queue(context: &Context, desk: &Desk<'_>, queue: &Queue) -> Result<(), Failure> {
    let map = context.pool().map();
    let state = load_value(map, field!(queue.slot, ObjectHeader, state))?;
    if state == queue.stands(ObjectState::Dying) {
        return remove::dismantle_queue(context, desk, queue);
    }
    serve_senders(context, desk, queue)?;
    serve_receivers(context, desk, queue)
}
