//! Memory of a pool for one process and those that it gives the id to: a segment that is marked as
//! removed from the start, so that it is freed with its last attach.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{LockContext, load_value};
use vshmem_wire::{AttachCount, ObjectName, ObjectState, PAGE_BYTES, Registry, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::backing::Backing;
use crate::memory::{change, extents};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::permission::{Caller, Permission};
use crate::registry::table::{self, SlotState};
use crate::shm::create;
use crate::shm::record::attach;
use crate::shm::segment::{Attachment, at, pages_of};

/// SHM_DEST, and access for every process that can open the pool.
const MODE: i32 = 0o1666;

/// Takes zeroed memory, attached by this process and removed, if `spare` bytes of the pool are free
/// beside it. Others attach it by its id; shmdt(2) gives it back.
pub(crate) fn hold_memory(
    context: &Context,
    bytes: u64,
    spare: u64,
    caller: &dyn Caller,
    backing: &dyn Backing,
) -> Result<Attachment, Failure> {
    let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| Errno::NOSPC)?;
    if pages == 0 || bytes > context.pool().geometry().shmmax {
        return Err(Errno::INVAL.into());
    }
    if spare > 0 && !has_room(context, u64::from(pages), spare.div_ceil(PAGE_BYTES))? {
        return Err(Errno::NOSPC.into());
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let (object_slot, extent) =
        create::begin_patiently(context, &lock_context, pages, None, backing)?;
    let held = create::ready_pages(context, extent, backing)
        .and_then(|()| publish_held(context, &lock_context, object_slot, bytes, caller));
    if held.is_err() {
        create::abandon_segment(context, &lock_context, object_slot);
    }
    held?;
    context.reported_sizes.record_size(Kind::Segment, object_slot, pages_of(bytes)?)?;
    Ok(Attachment {
        id: object_slot.id(),
        offset: context.pool().layout().data.offset() + u64::from(extent.first) * PAGE_BYTES,
        bytes: u64::from(pages) * PAGE_BYTES,
    })
}

/// Whether so many pages are free, and so many more. Others may take some of them meanwhile.
fn has_room(context: &Context, pages: u64, spare: u64) -> Result<bool, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let used = load_value(pool.map(), field!(layout.registry, Registry, pages_used))?;
    let free = u64::from(extents::pages_in(layout)).saturating_sub(u64::from(used));
    Ok(free.checked_sub(pages).is_some_and(|rest| rest >= spare))
}

/// Publishes the segment, attached and removed, in one change. With two, a client that died between
/// them would leave a segment without an attach, which no detach would ever free.
fn publish_held(
    context: &Context,
    lock_context: &LockContext<'_>,
    object_slot: ObjectSlot,
    bytes: u64,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let permission = Permission::of_new(0, 0, caller);
    let permission = Permission { mode: MODE as u32, ..permission };
    change::decide(context, lock_context, context.pool().registry_lock(), "hold", |txn| {
        let slot = layout.shm.row(object_slot.index)?;
        table::describe(txn, slot.header(), &permission, seconds_now())?;
        txn.update(at!(slot, size_low), bytes as u32)?;
        txn.update(at!(slot, size_high), (bytes >> 32) as u32)?;
        txn.update(at!(slot, attach_time), seconds_now())?;
        txn.update(at!(slot, detach_time), 0)?;
        txn.update(at!(slot, creator), context.process_ref().pack())?;
        txn.update(at!(slot, last), context.process_ref().pack())?;
        txn.update_word(at!(slot, maker), 0)?;
        txn.update_word(at!(slot, name), ObjectName::SystemV.pack())?;
        table::end_task(txn, Kind::Segment, object_slot.index)?;
        if !attach(txn, layout, context.client_id(), object_slot.index, AttachCount::mappings(1))? {
            return Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NOMEM)));
        }
        let doomed =
            SlotState { state: ObjectState::Doomed as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, ShmSlot, header.state), doomed.pack())?;
        Ok(Commit(()))
    })
}
