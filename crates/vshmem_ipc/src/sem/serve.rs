//! Serving those who sleep at a set.

use vshmem_sync::{Desk, Fault};
use vshmem_wire::ObjectState;

use crate::context::Context;
use crate::error::{Failure, settle};
use crate::memory::change;
use crate::registry::table;
use crate::sem::array::serve;
use crate::sem::remove;
use crate::sem::set::Set;
use crate::wait::doorbell;
use crate::wait::wait_queue::Rings;

/// Serves sleepers until no more can go on.
pub(crate) fn serve_rest(context: &Context, desk: &Desk<'_>, set: &Set) -> Result<(), Failure> {
    // Each round but the last takes somebody off the line.
    for _ in 0..=context.pool().layout().threads.count {
        let mut rings = Rings::default();
        let more = change::run(context, desk, set.lock(), "semop-serve", |txn| {
            rings.clear();
            if !set.alive(txn)? {
                return Ok(Ok(false));
            }
            serve(txn, context.pool(), set, &mut rings).map(Ok)
        });
        let more = settle(more)?;
        doorbell::ring_all(context, &rings);
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(set.slot, "a wait queue without an end").into())
}

/// Makes up for somebody who died halfway: serves sleepers, or goes on taking the set apart.
pub(crate) fn tend_set(context: &Context, desk: &Desk<'_>, set: &Set) -> Result<(), Failure> {
    let standing = table::standing(context.pool().map(), set.slot)?;
    if standing == set.stands(ObjectState::Dying as u32) {
        return remove::dismantle_set(context, desk, set);
    }
    serve_rest(context, desk, set)
}
