//! semctl(2): owner, mode, and totals.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::load_value;
use vshmem_wire::{ObjectState, SemSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::lookup;
use crate::registry::permission::{Caller, Permission, READ};
use crate::registry::table::{self, per_kind};
use crate::sem::set::{self, Set};

/// A set as IPC_STAT tells it (`struct semid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Semaphores.
    pub count: u32,
    /// Seconds since 1970 of the last semop, 0 for none.
    pub operated: u32,
    /// Seconds since 1970 of creation or IPC_SET.
    pub changed: u32,
}

/// Totals (`struct seminfo` after SEM_INFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemInfo {
    /// Sets in use.
    pub sets: u32,
    /// Semaphores in use.
    pub semaphores: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}

/// IPC_SET.
pub(crate) fn set_change(
    context: &Context,
    id: i32,
    uid: u32,
    gid: u32,
    mode: u32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let set = set::find(context, id)?;
    set::permission(context, &set)?.allow_control(caller)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, set.lock(), "sem-set", |txn| {
        if !set.alive(txn)? {
            return Ok(Abandon(Errno::IDRM));
        }
        table::set_owner(txn, set.slot.header(), uid, gid, mode).map(Commit)
    })
}

/// IPC_STAT; SEM_STAT and SEM_STAT_ANY by `set_at_index`.
pub(crate) fn set_stat(
    context: &Context,
    id: i32,
    caller: &dyn Caller,
) -> Result<SetStat, Failure> {
    let set = set::set_of_size(context, id)?;
    let stat = set_row(context, &set)?;
    stat.permission.allow(caller, READ)?;
    Ok(stat)
}

/// SEM_STAT (`any` false) and SEM_STAT_ANY.
pub(crate) fn set_at_index(
    context: &Context,
    index: u32,
    any: bool,
    caller: &dyn Caller,
) -> Result<SetStat, Failure> {
    let id = lookup::id_at(context, Kind::Semaphore, index)?;
    let stat = set_row(context, &set::set_of_size(context, id)?)?;
    if !any {
        stat.permission.allow(caller, READ)?;
    }
    Ok(stat)
}

fn set_row(context: &Context, set: &Set) -> Result<SetStat, Failure> {
    let map = context.pool().map();
    Ok(SetStat {
        id: ObjectSlot { index: set.index, sequence: set.sequence }.id(),
        permission: Permission::read(map, set.slot.header())?,
        count: set.count,
        operated: load_value(map, field!(set.slot, SemSlot, header.operated))?,
        changed: load_value(map, field!(set.slot, SemSlot, header.changed))?,
    })
}

/// SEM_INFO.
pub(crate) fn sem_info(context: &Context) -> Result<SemInfo, Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let sets = load_value(map, per_kind!(layout, in_use, Kind::Semaphore))?;
    let high = load_value(map, per_kind!(layout, high_water, Kind::Semaphore))?;
    let (mut semaphores, mut highest) = (0u32, 0);
    for index in 0..high.min(layout.sem.count as u32) {
        let slot = layout.sem.row(index)?;
        if table::slot_state(map, slot.header())?.is(ObjectState::Live) {
            let count = load_value(map, field!(slot, SemSlot, count))?;
            semaphores = semaphores.saturating_add(count);
            highest = index;
        }
    }
    Ok(SemInfo { sets, semaphores, highest })
}
