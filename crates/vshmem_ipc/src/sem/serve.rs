//! Serving those who sleep at a set.

use vshmem_sync::{Fault, LockContext};
use vshmem_wire::ObjectState;

use crate::context::Context;
use crate::error::Failure;
use crate::registry::table;
use crate::sem::remove;
use crate::sem::set::Set;
use crate::sem::under_lock::serve;
use crate::wait::doorbell;
use crate::wait::wait_queue::WakeList;

/// Serves waiters until no more can go on.
pub(crate) fn serve_rest(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
) -> Result<(), Failure> {
    // Each round but the last takes another thread off the wait queue.
    for _ in 0..=context.pool().layout().threads.count {
        let mut wakes = WakeList::default();
        let more = set.change(context, lock_context, "semop-serve", |txn| {
            wakes.clear();
            if !set.alive(txn)? {
                return Ok(false);
            }
            serve(txn, context.pool(), set, &mut wakes)
        })?;
        doorbell::wake_listed(context, &wakes);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(set.slot, "a wait queue without an end").into())
}

/// Recovers after a thread that died in the middle of a change: serves waiters, or continues to
/// take the set apart.
pub(crate) fn recover_set(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
) -> Result<(), Failure> {
    let slot_state = table::slot_state(context.pool().map(), set.slot.header())?;
    if slot_state == set.state_word(ObjectState::Dying) {
        return remove::dismantle_set(context, lock_context, set);
    }
    serve_rest(context, lock_context, set)
}
