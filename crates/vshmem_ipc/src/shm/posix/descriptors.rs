//! Descriptors of an object: how many a process has, and mappings made by way of them.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, with_lock};
use vshmem_wire::{AttachCount, AttachSlot, ClientSlot, PAGE_BYTES, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::clients::slot_of;
use crate::pool::id::ObjectSlot;
use crate::pool::limits::limit_name;
use crate::registry::attach_records::{count_at, nth_of_segment};
use crate::registry::table;
use crate::shm::posix::object;
use crate::shm::record::{attach, detach, extent_of};
use crate::shm::segment::{Attachment, at};

/// One more descriptor of this process: it has got one by dup(2), from another process, or from
/// before an exec.
pub(crate) fn keep(context: &Context, id: i32) -> Result<(), Failure> {
    let object = object::find(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    change::decide(context, &lock_context, lock, "shm-keep", |txn| {
        if !object.is_alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        let one = AttachCount::descriptors(1);
        let counted = attach(txn, layout, context.client_id(), object.object_slot.index, one)?;
        Ok(if counted {
            Commit(())
        } else {
            Abandon(context.pool().full(limit_name!(attaches), Errno::NFILE))
        })
    })
}

/// One descriptor of this process less. EINVAL when it has none.
pub(crate) fn close(context: &Context, id: i32) -> Result<(), Failure> {
    let object = object::find(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    change::decide(context, &lock_context, lock, "shm-close", |txn| {
        if !object.is_alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        let one = AttachCount::descriptors(1);
        let had = detach(txn, layout, context.client_id(), object.object_slot.index, one)?;
        Ok(if had { Commit(()) } else { Abandon(Errno::INVAL) })
    })
}

/// Counts an attach of an object, and says where its memory lies. Modes are not looked at: the
/// descriptor says what may be done. ENXIO as long as it has no memory.
pub(crate) fn attach_object(context: &Context, id: i32) -> Result<Attachment, Failure> {
    let object = object::find(context, id)?;
    let layout = context.pool().layout();
    let slot = object.slot;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let lock = context.pool().registry_lock();
    change::decide(context, &lock_context, lock, "shm-map", |txn| {
        if !object.is_alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        let Some(extent) = extent_of(txn, layout, slot)? else { return Ok(Abandon(Errno::NXIO)) };
        let one = AttachCount::mappings(1);
        if !attach(txn, layout, context.client_id(), object.object_slot.index, one)? {
            return Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NOMEM)));
        }
        txn.update(at!(slot, attach_time), seconds_now())?;
        txn.update(at!(slot, last), context.process_ref().pack())?;
        Ok(Commit(Attachment {
            id,
            offset: layout.data.offset() + u64::from(extent.first) * PAGE_BYTES,
            bytes: u64::from(extent.pages) * PAGE_BYTES,
        }))
    })
}

/// What a program that has just been exec'ed has found: those descriptors of `held` (id and how
/// many) stay, all others of this process are closed.
pub(crate) fn keep_only(context: &Context, held: &[(i32, u32)]) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let head_at = field!(slot_of(layout, context.client_id())?, ClientSlot, attaches);
    let wanted_of = |object_slot: ObjectSlot| {
        let found = held.iter().find(|(id, _)| *id == object_slot.id());
        found.map_or(0, |(_, count)| *count)
    };
    let mut kept = 0;
    for _ in 0..=layout.attaches.count {
        let lock = context.pool().registry_lock();
        let more = with_lock(lock_context, lock, "shm-keep-only", |txn| {
            let Some(at) = nth_of_segment(txn, layout, head_at, kept)? else { return Ok(None) };
            let segment = txn.get(field!(at, AttachSlot, segment))?;
            let Some(index) = segment.checked_sub(1) else {
                return Err(Fault::corrupt(at, "an attach record of nothing"));
            };
            let slot = layout.shm.row(index)?;
            let sequence = table::slot_state(context.pool().map(), slot.header())?.sequence;
            let has = count_at(txn, field!(at, AttachSlot, count))?;
            let wanted = wanted_of(ObjectSlot { index, sequence });
            if wanted >= has.opened {
                let more = AttachCount::descriptors(wanted - has.opened);
                attach(txn, layout, context.client_id(), index, more)?;
                return Ok(Some(true));
            }
            let fewer = AttachCount::descriptors(has.opened - wanted);
            detach(txn, layout, context.client_id(), index, fewer)?;
            Ok(Some(!has.minus(fewer).is_none()))
        })?;
        match more {
            None => return Ok(()),
            Some(stays) => kept += u32::from(stays),
        }
    }
    Err(Fault::corrupt(head_at, "an attach list without an end").into())
}
