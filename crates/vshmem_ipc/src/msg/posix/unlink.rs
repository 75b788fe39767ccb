//! mq_unlink(3).

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::msg::posix::descriptors::{begin_removal, queue_in, remove_unused};
use crate::pool::id::Kind;
use crate::registry::name::{self, Name};
use crate::registry::permission::{Caller, Permission};

/// mq_unlink(3), without the slash in front of the name: nobody finds the queue any more, and it
/// goes with its last descriptor.
pub(crate) fn unlink(context: &Context, name: &[u8], caller: &dyn Caller) -> Result<(), Failure> {
    let name = Name::of(name)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    let unused = change::decide(context, &lock_context, lock, "mq-unlink", |txn| {
        let Some(object_slot) = name::find(txn, layout, Kind::Queue, name)? else {
            return Ok(Abandon(Errno::NOENT));
        };
        let queue = queue_in(txn, layout, object_slot.index)?;
        let permission = Permission::read(txn.lock_context().map, queue.slot.header())?;
        if let Err(errno) = permission.allow_owner(caller) {
            return Ok(Abandon(errno));
        }
        name::leave(txn, layout, Kind::Queue, object_slot.index)?;
        begin_removal(txn, &queue).map(Commit)
    })?;
    unused.map_or(Ok(()), |queue| remove_unused(context, &lock_context, &queue))
}
