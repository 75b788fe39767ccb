//! shmat(2), shmdt(2), and what else changes the number of attaches.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext};
use vshmem_wire::{
    AttachCount, AttachSlot, ClientId, ClientSlot, ObjectState, PAGE_BYTES, ShmSlot, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::clients::slot_of;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::attach_records::{count_at, nth_of_segment};
use crate::registry::permission::{Caller, READ, WRITE};
use crate::registry::table::SlotState;
use crate::shm::record::{attach, detach};
use crate::shm::segment::{self, Attachment, at, pages_of};

/// The shared part of shmat(2): checks, counts, and says where the segment lies.
pub(crate) fn shmat(
    context: &Context,
    id: i32,
    write: bool,
    execute: bool,
    caller: &dyn Caller,
) -> Result<Attachment, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let (object_slot, slot) = segment::find(context, id)?;
    let wanted = READ | if write { WRITE } else { 0 } | u32::from(execute);
    segment::permission(context, slot)?.allow(caller, wanted)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let reported_pages = pages_of(segment::bytes(context, object_slot, slot)?)?;
    context.reported_sizes.check_size(Kind::Segment, object_slot, reported_pages, slot)?;
    change::decide(context, &lock_context, pool.registry_lock(), "shmat", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if !is_there(slot_state) || slot_state.sequence != object_slot.sequence {
            return Ok(Abandon(Errno::IDRM));
        }
        let first = txn.get(at!(slot, first_page))?;
        let pages = txn.get(at!(slot, pages))?;
        if pages != reported_pages || u64::from(first) + u64::from(pages) > layout.data.count {
            return Err(Fault::corrupt(slot, "a segment outside the pool"));
        }
        if !attach(txn, layout, context.client_id(), object_slot.index, AttachCount::mappings(1))? {
            return Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NOMEM)));
        }
        txn.update(at!(slot, attach_time), seconds_now())?;
        txn.update(at!(slot, last), context.process_ref().pack())?;
        Ok(Commit(Attachment {
            id,
            offset: layout.data.offset() + u64::from(first) * PAGE_BYTES,
            bytes: u64::from(pages) * PAGE_BYTES,
        }))
    })
}

/// The shared part of shmdt(2): one attach of this process less.
pub(crate) fn shmdt(context: &Context, id: i32) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
    let slot = layout.shm.at(object_slot.index).ok_or(Errno::INVAL)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, context.pool().registry_lock(), "shmdt", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if slot_state.sequence != object_slot.sequence {
            return Ok(Abandon(Errno::INVAL));
        }
        if !detach(txn, layout, context.client_id(), object_slot.index, AttachCount::mappings(1))? {
            return Ok(Abandon(Errno::INVAL));
        }
        txn.update(at!(slot, last), context.process_ref().pack())?;
        Ok(Commit(()))
    })
}

/// Counts one more attach of a segment that this process has attached already: what a hole in
/// a mapping does.
pub(crate) fn attach_again(context: &Context, id: i32) -> Result<(), Failure> {
    let (object_slot, slot) = segment::find_any(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    change::decide(context, &lock_context, lock, "attach-again", |txn| {
        // Since it was found, another thread may have let go of it, and its slot have the next one.
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if slot_state.sequence != object_slot.sequence || !is_there(slot_state) {
            return Ok(Abandon(Errno::INVAL));
        }
        let added =
            attach(txn, layout, context.client_id(), object_slot.index, AttachCount::mappings(1))?;
        Ok(if added { Commit(()) } else { Abandon(Errno::NOMEM) })
    })
}

/// Whether a slot has a segment that can be attached.
fn is_there(slot_state: SlotState) -> bool {
    slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Doomed)
}

/// Adds attaches of this process's of a System V segment; false when there is no record left, or no
/// such segment any more.
pub(super) fn add_attaches(
    context: &Context,
    lock_context: &LockContext<'_>,
    object_slot: ObjectSlot,
    count: AttachCount,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let slot = layout.shm.row(object_slot.index)?;
    vshmem_sync::with_lock(*lock_context, context.pool().registry_lock(), "attach", |txn| {
        // Since it was found, it may have gone, and its slot have the next one.
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        Ok(slot_state.sequence == object_slot.sequence
            && is_there(slot_state)
            && attach(txn, layout, context.client_id(), object_slot.index, count)?)
    })
}

/// Takes away what a client has of `what` on all segments. May be left halfway and begun again.
pub(crate) fn release_attaches(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
    what: AttachCount,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let head_at = field!(slot_of(layout, client)?, ClientSlot, attaches);
    // Records that stay, for descriptors: they are passed.
    let mut kept = 0;
    for _ in 0..=layout.attaches.count {
        let step = vshmem_sync::with_lock(
            *lock_context,
            context.pool().registry_lock(),
            "leave-attach",
            |txn| {
                let Some(at) = nth_of_segment(txn, layout, head_at, kept)? else {
                    return Ok(RecordFate::Finished);
                };
                if txn.get_word(field!(at, AttachSlot, client))? != client.word() {
                    // The slot's next holder has begun to attach.
                    return Ok(RecordFate::Finished);
                }
                let segment = txn.get(field!(at, AttachSlot, segment))?;
                let Some(segment) = segment.checked_sub(1) else {
                    return Err(Fault::corrupt(at, "an attach record of nothing"));
                };
                let held = count_at(txn, field!(at, AttachSlot, count))?;
                detach(txn, layout, client, segment, what)?;
                Ok(if held.minus(what).is_none() { RecordFate::Gone } else { RecordFate::Stays })
            },
        )?;
        match step {
            RecordFate::Finished => return Ok(()),
            RecordFate::Gone => {}
            RecordFate::Stays => kept += 1,
        }
    }
    Err(Fault::corrupt(head_at, "an attach list without an end"))
}

/// What became of an attach record.
enum RecordFate {
    /// There was none.
    Finished,
    /// It is no more.
    Gone,
    /// Something of it is left.
    Stays,
}

/// Gives up all attaches of this process, as exec does.
pub(crate) fn detach_all(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    release_attaches(context, &lock_context, context.client_id(), AttachCount::ALL_MAPPINGS)
        .map_err(Failure::from)
}
