//! shm_unlink(3).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{Layout, ObjectState, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::attach_records::count_at;
use crate::registry::name::{self, Name};
use crate::registry::permission::{Caller, Permission};
use crate::registry::table::SlotState;
use crate::shm::record::destroy;
use crate::shm::segment::at;

/// Takes a name away, and the object with it unless a client has it open or attached. EACCES for
/// who is not its owner, as shm_unlink(3) says.
pub(crate) fn unlink(
    context: &Context,
    bytes_of_name: &[u8],
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let name = Name::of(bytes_of_name)?;
    let pool = context.pool();
    let layout = pool.layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, pool.registry_lock(), "shm-unlink", |txn| {
        let Some(object_slot) = name::find(txn, layout, Kind::Segment, name)? else {
            return Ok(Abandon(Errno::NOENT));
        };
        let slot = layout.shm.row(object_slot.index)?;
        if Permission::read(pool.map(), slot.header())?.allow_owner(caller).is_err() {
            return Ok(Abandon(Errno::ACCESS));
        }
        take_name(txn, layout, object_slot).map(Commit)
    })
}

/// Takes an object's name away, and the object with it unless a client has it open or attached.
pub(super) fn take_name(
    txn: &mut Txn<'_>,
    layout: &Layout,
    object_slot: ObjectSlot,
) -> Result<(), Fault> {
    name::leave(txn, layout, Kind::Segment, object_slot.index)?;
    let slot = layout.shm.row(object_slot.index)?;
    if count_at(txn, at!(slot, attached))?.is_none() {
        return destroy(txn, layout, object_slot.index);
    }
    let doomed = SlotState { state: ObjectState::Doomed as u32, sequence: object_slot.sequence };
    txn.set(field!(slot, ShmSlot, header.state), doomed.pack())?;
    txn.update(field!(slot, ShmSlot, header.changed), seconds_now())
}
