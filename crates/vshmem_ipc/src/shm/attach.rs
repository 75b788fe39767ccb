//! shmat(2), shmdt(2), and what else changes the number of attaches.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, LockContext, field};
use vshmem_wire::{AttachSlot, ClientId, ClientSlot, ObjectHeader, ObjectState, PAGE_BYTES};

use crate::context::Context;
use crate::error::{Failure, to_errno};
use crate::memory::change;
use crate::pool::clients::slot_of;
use crate::pool::id::{Kind, Place};
use crate::registry::permission::{Caller, READ, WRITE};
use crate::registry::table::SlotState;
use crate::shm::record::{attach, attach_at, detach};
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
    let (place, slot) = segment::find(context, id)?;
    let wanted = READ | if write { WRITE } else { 0 } | u32::from(execute);
    segment::permission(context, slot)?.allow(caller, wanted)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let reported_pages = pages_of(segment::bytes(context, place, slot)?)?;
    context.reported_sizes.check_size(Kind::Segment, place, reported_pages, slot)?;
    to_errno(change::run(context, &lock_context, pool.registry_lock(), "shmat", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ObjectHeader, state))?);
        let there = slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Doomed);
        if !there || slot_state.sequence != place.sequence {
            return Ok(Err(Errno::IDRM));
        }
        let first = txn.get(at!(slot, first_page))?;
        let pages = txn.get(at!(slot, pages))?;
        if pages != reported_pages || u64::from(first) + u64::from(pages) > layout.data.count {
            return Err(Fault::corrupt(slot, "a segment outside the pool"));
        }
        if !attach(txn, layout, context.me(), place.index, 1)? {
            return Ok(Err(Errno::NOMEM));
        }
        txn.update(at!(slot, attach_time), seconds_now())?;
        txn.update(at!(slot, last), context.process_ref().pack())?;
        Ok(Ok(Attachment {
            id,
            offset: layout.data.offset + u64::from(first) * PAGE_BYTES,
            bytes: u64::from(pages) * PAGE_BYTES,
        }))
    }))
}

/// The shared part of shmdt(2): one attach of this process less.
pub(crate) fn shmdt(context: &Context, id: i32) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let place = Place::of(id).ok_or(Errno::INVAL)?;
    let slot = layout.shm.at(place.index).ok_or(Errno::INVAL)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    to_errno(change::run(context, &lock_context, context.pool().registry_lock(), "shmdt", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ObjectHeader, state))?);
        if slot_state.sequence != place.sequence {
            return Ok(Err(Errno::INVAL));
        }
        if !detach(txn, layout, context.me(), place.index, 1)? {
            return Ok(Err(Errno::INVAL));
        }
        txn.update(at!(slot, last), context.process_ref().pack())?;
        Ok(Ok(()))
    }))
}

/// Counts one more attach of a segment that this process has attached already: what a hole in
/// a mapping does.
pub(crate) fn attach_again(context: &Context, id: i32) -> Result<(), Failure> {
    let (place, _) = segment::find(context, id)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let added = add_attaches(context, &lock_context, context.me(), place.index, 1)?;
    if added { Ok(()) } else { Err(Errno::NOMEM.into()) }
}

/// Adds attaches for a client; false when there is no record left.
pub(crate) fn add_attaches(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
    segment: u32,
    count: u32,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    vshmem_sync::with_lock(*lock_context, context.pool().registry_lock(), "attach", |txn| {
        attach(txn, layout, client, segment, count)
    })
}

/// Takes all attaches of a client away. May be left halfway and begun again.
pub(crate) fn release_attaches(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let head_at = field!(slot_of(layout, client)?, ClientSlot, attaches);
    for _ in 0..=layout.attaches.count {
        let more = vshmem_sync::with_lock(
            *lock_context,
            context.pool().registry_lock(),
            "leave-attach",
            |txn| {
                let Some(record) = txn.get(head_at)?.checked_sub(1) else {
                    return Ok(false);
                };
                let at = attach_at(layout, record)?;
                if txn.get_word(field!(at, AttachSlot, client))? != client.word() {
                    // The slot's next holder has begun to attach.
                    return Ok(false);
                }
                let segment = txn.get(field!(at, AttachSlot, segment))?;
                let Some(segment) = segment.checked_sub(1) else {
                    return Err(Fault::corrupt(at, "an attach record of nothing"));
                };
                detach(txn, layout, client, segment, u32::MAX)
            },
        )?;
        if !more {
            return Ok(());
        }
    }
    Err(Fault::corrupt(head_at, "an attach list without an end"))
}

/// Gives up all attaches of this process, as exec does.
pub(crate) fn detach_all(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    release_attaches(context, &context.lock_context_of(&slot_guard), context.me())
        .map_err(Failure::from)
}
