//! shmctl(2).

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::load_value;
use vshmem_wire::{ObjectState, PAGE_BYTES, Place, RawCell, Registry, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::permission::{Caller, Permission, READ};
use crate::registry::table::{self, SlotState, per_kind};
use crate::registry::{lookup, name};
use crate::shm::record::destroy;
use crate::shm::segment::{self, SegmentStat, ShmInfo, at, pages_of};

/// SHM_DEST in a mode.
const DESTROYED: u32 = 0o1000;

/// SHM_LOCKED in a mode.
const LOCKED: u32 = 0o2000;

/// IPC_RMID.
pub(crate) fn segment_remove(
    context: &Context,
    id: i32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let (object_slot, slot) = segment::find(context, id)?;
    segment::permission(context, slot)?.allow_control(caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, context.pool().registry_lock(), "shm-remove", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if slot_state.sequence != object_slot.sequence {
            return Ok(Abandon(Errno::IDRM));
        }
        if slot_state.is(ObjectState::Doomed) {
            return Ok(Commit(()));
        }
        table::leave_key(txn, layout, Kind::Segment, object_slot.index)?;
        txn.update(field!(slot, ShmSlot, header.key), 0)?;
        let mode_at = field!(slot, ShmSlot, header.mode);
        let mode = txn.get(mode_at)?;
        txn.update(mode_at, mode | DESTROYED)?;
        if txn.get(at!(slot, attached))? == 0 {
            destroy(txn, layout, object_slot.index)?;
        } else {
            let doomed =
                SlotState { state: ObjectState::Doomed as u32, sequence: object_slot.sequence };
            txn.set(field!(slot, ShmSlot, header.state), doomed.pack())?;
        }
        Ok(Commit(()))
    })
}

/// IPC_SET.
pub(crate) fn segment_change(
    context: &Context,
    id: i32,
    uid: u32,
    gid: u32,
    mode: u32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let (object_slot, slot) = segment::find(context, id)?;
    segment::permission(context, slot)?.allow_control(caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, context.pool().registry_lock(), "shm-set", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if slot_state.sequence != object_slot.sequence {
            return Ok(Abandon(Errno::IDRM));
        }
        table::set_owner(txn, slot.header(), uid, gid, mode).map(Commit)
    })
}

/// SHM_LOCK and SHM_UNLOCK: pool memory never goes to swap, so only the flag changes. `most` is
/// what the caller may lock (RLIMIT_MEMLOCK); without, it has CAP_IPC_LOCK and may do all.
pub(crate) fn segment_lock(
    context: &Context,
    id: i32,
    lock: bool,
    most: Option<u64>,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let (object_slot, slot) = segment::find(context, id)?;
    let permission = segment::permission(context, slot)?;
    if let Some(most) = most {
        // CAP_SYS_ADMIN is no help here (shmctl_do_lock of ipc/shm.c).
        if !permission.belongs_to(caller) || (lock && most == 0) {
            return Err(Errno::PERM.into());
        }
        let locked = permission.mode & LOCKED != 0;
        let bytes = u64::from(pages_of(segment::bytes(context, object_slot, slot)?)?) * PAGE_BYTES;
        if lock && !locked && bytes > most {
            return Err(Errno::NOMEM.into());
        }
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, context.pool().registry_lock(), "shm-lock", |txn| {
        let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
        if slot_state.sequence != object_slot.sequence {
            return Ok(Abandon(Errno::IDRM));
        }
        let mode_at = field!(slot, ShmSlot, header.mode);
        let mode = txn.get(mode_at)?;
        txn.update(mode_at, if lock { mode | LOCKED } else { mode & !LOCKED })?;
        Ok(Commit(()))
    })
}

/// IPC_STAT.
pub(crate) fn segment_stat(
    context: &Context,
    id: i32,
    caller: &dyn Caller,
) -> Result<SegmentStat, Failure> {
    let (object_slot, slot) = segment::find(context, id)?;
    let stat = segment_row(context, object_slot, slot)?;
    stat.permission.allow(caller, READ)?;
    Ok(stat)
}

/// SHM_STAT (`any` false) and SHM_STAT_ANY.
pub(crate) fn segment_at_index(
    context: &Context,
    index: u32,
    any: bool,
    caller: &dyn Caller,
) -> Result<SegmentStat, Failure> {
    let (object_slot, slot) =
        segment::find(context, lookup::id_at(context, Kind::Segment, index)?)?;
    let stat = segment_row(context, object_slot, slot)?;
    if !any {
        stat.permission.allow(caller, READ)?;
    }
    Ok(stat)
}

fn segment_row(
    context: &Context,
    object_slot: ObjectSlot,
    slot: Place<ShmSlot>,
) -> Result<SegmentStat, Failure> {
    let map = context.pool().map();
    let get = |at: Place<RawCell>| load_value(map, at);
    let size = segment::bytes(context, object_slot, slot)?;
    context.reported_sizes.check_size(Kind::Segment, object_slot, pages_of(size)?, slot)?;
    Ok(SegmentStat {
        id: object_slot.id(),
        permission: Permission::read(map, slot.header())?,
        size,
        attached: get(at!(slot, attached))?,
        creator: context.pid_here(get(at!(slot, creator))?),
        last: context.pid_here(get(at!(slot, last))?),
        attach_time: get(at!(slot, attach_time))?,
        detach_time: get(at!(slot, detach_time))?,
        changed: get(field!(slot, ShmSlot, header.changed))?,
    })
}

/// SHM_INFO, of System V segments alone.
pub(crate) fn shm_info(context: &Context) -> Result<ShmInfo, Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut info = ShmInfo {
        segments: load_value(map, per_kind!(layout, in_use, Kind::Segment))?,
        pages: load_value(map, field!(layout.registry, Registry, pages_used))?,
        highest: 0,
    };
    let high = load_value(map, per_kind!(layout, high_water, Kind::Segment))?;
    for index in 0..high.min(layout.shm.count as u32) {
        let slot = layout.shm.row(index)?;
        let slot_state = table::slot_state(map, slot.header())?;
        if !slot_state.is(ObjectState::Live) && !slot_state.is(ObjectState::Doomed) {
            continue;
        }
        if name::is_posix(map, at!(slot, name))? {
            info.segments = info.segments.saturating_sub(1);
            info.pages = info.pages.saturating_sub(load_value(map, at!(slot, pages))?);
        } else {
            info.highest = index;
        }
    }
    Ok(info)
}
