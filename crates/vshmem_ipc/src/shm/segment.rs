//! A segment that has been looked up, and what the calls tell of it.

use rustix::io::Errno;
use vshmem_sync::load_value;
use vshmem_wire::{ObjectState, PAGE_BYTES, Place, ShmSlot};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::id::ObjectSlot;
use crate::registry::permission::Permission;
use crate::registry::{name, table};

/// Where a segment lies in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// Its id.
    pub id: i32,
    /// Byte offset in the pool.
    pub offset: u64,
    /// Bytes, whole pages.
    pub bytes: u64,
}

/// A segment as IPC_STAT tells it (`struct shmid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Bytes, as asked for.
    pub size: u64,
    /// Attaches.
    pub attached: u32,
    /// Creator's pid here.
    pub creator: u32,
    /// Pid here of the last to attach or detach.
    pub last: u32,
    /// Seconds since 1970.
    pub attach_time: u32,
    /// Seconds since 1970.
    pub detach_time: u32,
    /// Seconds since 1970.
    pub changed: u32,
}

/// Totals (`struct shm_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShmInfo {
    /// Segments in use.
    pub segments: u32,
    /// Pages in them.
    pub pages: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}

macro_rules! at {
    ($slot:expr, $field:ident) => {
        vshmem_wire::field!($slot, vshmem_wire::ShmSlot, $field)
    };
}

pub(crate) use at;

/// The slot of a System V segment's id: a live one, or one that is removed and still attached.
pub(super) fn find(context: &Context, id: i32) -> Result<(ObjectSlot, Place<ShmSlot>), Failure> {
    let (object_slot, slot) = find_any(context, id)?;
    if name::is_posix(context.pool().map(), at!(slot, name))? {
        return Err(Errno::INVAL.into());
    }
    Ok((object_slot, slot))
}

/// As [`find`], also of a POSIX shared memory object.
pub(super) fn find_any(
    context: &Context,
    id: i32,
) -> Result<(ObjectSlot, Place<ShmSlot>), Failure> {
    let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
    let slot = context.pool().layout().shm.at(object_slot.index).ok_or(Errno::INVAL)?;
    let slot_state = table::slot_state(context.pool().map(), slot.header())?;
    let there = slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Doomed);
    let same = slot_state.sequence == object_slot.sequence;
    if there && same { Ok((object_slot, slot)) } else { Err(Errno::INVAL.into()) }
}

pub(super) fn permission(context: &Context, slot: Place<ShmSlot>) -> Result<Permission, Failure> {
    Permission::read(context.pool().map(), slot.header()).map_err(Failure::from)
}

/// Bytes of a segment; EINVAL when it has gone meanwhile.
pub(crate) fn bytes(
    context: &Context,
    object_slot: ObjectSlot,
    slot: Place<ShmSlot>,
) -> Result<u64, Failure> {
    let map = context.pool().map();
    let low = load_value(map, at!(slot, size_low))?;
    let high = load_value(map, at!(slot, size_high))?;
    // What was read belongs to this incarnation only if it still stands.
    find_any(context, object_slot.id())?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// Pages of a segment of so many bytes.
pub(super) fn pages_of(bytes: u64) -> Result<u32, Failure> {
    Ok(u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| Errno::IO)?)
}
