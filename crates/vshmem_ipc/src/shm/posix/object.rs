//! A POSIX shared memory object that has been looked up, and what the calls tell of it.

use rustix::io::Errno;
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{ObjectState, Place, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::id::ObjectSlot;
use crate::registry::name;
use crate::registry::table::SlotState;
use crate::shm::segment;

/// How shm_open(3) opens: the flags and the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PosixOpen {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// O_CREAT.
    pub create: bool,
    /// O_EXCL, which means something with O_CREAT alone.
    pub exclusive: bool,
    /// O_TRUNC.
    pub truncate: bool,
    /// Mode of a new object; the umask has been applied.
    pub mode: u32,
}

/// A POSIX shared memory object as fstat(2) tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PosixShmStat {
    /// Its id in the pool.
    pub id: i32,
    /// Bytes.
    pub size: u64,
    /// Bytes of memory that it has: up to these its size may be set while it is mapped.
    pub capacity: u64,
    /// Mode bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Whether it has its name still.
    pub named: bool,
    /// Attaches of all clients.
    pub attached: u32,
    /// Descriptors of all clients.
    pub opened: u32,
    /// Seconds since 1970 of the last attach, 0 for none.
    pub attach_time: u32,
    /// Seconds since 1970 when it was made, or its mode, owner or size was last set.
    pub changed: u32,
}

/// A POSIX object, by its id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object {
    pub object_slot: ObjectSlot,
    pub slot: Place<ShmSlot>,
}

/// Finds an object. EINVAL when it has gone, or is a System V segment.
pub(crate) fn find(context: &Context, id: i32) -> Result<Object, Failure> {
    let (object_slot, slot) = segment::find_any(context, id)?;
    if name::is_posix(context.pool().map(), field!(slot, ShmSlot, name))? {
        Ok(Object { object_slot, slot })
    } else {
        Err(Errno::INVAL.into())
    }
}

impl Object {
    /// Whether it is still there.
    pub fn is_alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let slot_state = SlotState::unpack(txn.get(field!(self.slot, ShmSlot, header.state))?);
        let there = slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Doomed);
        Ok(there && slot_state.sequence == self.object_slot.sequence)
    }
}
