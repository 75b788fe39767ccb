//! rename(2) of an object.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::LockContext;
use vshmem_wire::{ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks};
use crate::pool::id::Kind;
use crate::registry::name::{self, Name, NewName};
use crate::registry::permission::{Caller, Permission};
use crate::shm::posix::unlink;

/// Gives an object another name, in one step for all others; an object that has that name already
/// loses it, if `replaces`. EPERM for who is the owner of only one of the two.
pub(crate) fn rename(
    context: &Context,
    (from, to): (&[u8], &[u8]),
    replaces: bool,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let (from, to) = (Name::of(from)?, Name::of(to)?);
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let new = name::lay(context, &lock_context, to)?;
    let renamed = under_lock(context, &lock_context, from, new, replaces, caller);
    // The chunk is the object's only if its name has changed.
    if !matches!(renamed, Ok(true)) {
        let _ = chunks::release(context, &lock_context, new.chunk);
    }
    renamed.map(|_| ())
}

/// False: both names are one object's, which stays as it is.
fn under_lock(
    context: &Context,
    lock_context: &LockContext<'_>,
    from: Name<'_>,
    new: NewName<'_>,
    replaces: bool,
    caller: &dyn Caller,
) -> Result<bool, Failure> {
    let (pool, layout) = (context.pool(), context.pool().layout());
    change::decide(context, lock_context, pool.registry_lock(), "shm-rename", |txn| {
        let Some(moved) = name::find(txn, layout, Kind::Segment, from)? else {
            return Ok(Abandon(Errno::NOENT));
        };
        let replaced = name::find(txn, layout, Kind::Segment, new.name)?;
        if replaced.is_some() && !replaces {
            return Ok(Abandon(Errno::EXIST));
        }
        for object_slot in [Some(moved), replaced].into_iter().flatten() {
            let header = layout.shm.row(object_slot.index)?.header();
            if let Err(errno) = Permission::read(pool.map(), header)?.allow_owner(caller) {
                return Ok(Abandon(errno));
            }
        }
        if replaced == Some(moved) {
            return Ok(Commit(false));
        }
        if let Some(replaced) = replaced {
            unlink::take_name(txn, layout, replaced)?;
        }
        name::leave(txn, layout, Kind::Segment, moved.index)?;
        name::enter(context, txn, Kind::Segment, moved.index, new)?;
        let changed = field!(layout.shm.row(moved.index)?, ShmSlot, header.changed);
        txn.update(changed, seconds_now())?;
        Ok(Commit(true))
    })
}
