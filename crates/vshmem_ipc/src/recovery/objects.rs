//! Continuing with an object where another thread has stopped in the middle.

use vshmem_sync::LockContext;
use vshmem_wire::ObjectState;

use crate::context::Context;
use crate::error::Failure;
use crate::msg::queue::Queue;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::table;
use crate::sem::set::Set;
use crate::{msg, sem};

pub(crate) fn recover_object(
    context: &Context,
    lock_context: &LockContext<'_>,
    kind: Kind,
    index: u32,
) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let slot = kind.row(layout, index)?;
    let slot_state = table::slot_state(map, slot)?;
    if !slot_state.is(ObjectState::Live) && !slot_state.is(ObjectState::Dying) {
        return Ok(());
    }
    let object_slot = ObjectSlot { index, sequence: slot_state.sequence };
    match kind {
        Kind::Semaphore => {
            let set = Set::read(context.pool(), object_slot, layout.sem.row(index)?)?;
            sem::serve::recover_set(context, lock_context, &set)
        }
        _ => {
            let queue = Queue::at(object_slot, layout.msg.row(index)?);
            msg::serve::recover_queue(context, lock_context, &queue)
        }
    }
}
