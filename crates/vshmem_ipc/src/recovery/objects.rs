//! Going on with an object at which somebody has stopped.

use vshmem_sync::Desk;
use vshmem_wire::ObjectState;

use crate::context::Context;
use crate::error::Failure;
use crate::msg::queue::Queue;
use crate::pool::id::{Kind, Place};
use crate::registry::table;
use crate::sem::set::Set;
use crate::{msg, sem};

pub(crate) fn tend_object(
    context: &Context,
    desk: &Desk<'_>,
    is_set: bool,
    index: u32,
) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let kind = if is_set { Kind::Semaphore } else { Kind::Queue };
    let slot = table::slot_at(layout, kind, index)?;
    let standing = table::standing(map, slot)?;
    if !standing.is(ObjectState::Live) && !standing.is(ObjectState::Dying) {
        return Ok(());
    }
    let place = Place { index, sequence: standing.sequence };
    if is_set {
        sem::serve::tend_set(context, desk, &Set::read(context.pool(), place, slot)?)
    } else {
        msg::serve::tend_queue(context, desk, &Queue::at(place, slot))
    }
}
