//! semctl(2): owner, mode, and totals.

use super::set::Set;
use super::{SemInfo, SetStat};
use crate::access::{Caller, Permission, READ};
use crate::id::{Kind, Place};
use crate::registry::{self, per_kind};
use crate::{Errno, Member, Verdict, settle};
use vshmem_sync::{field, load_value};
use vshmem_wire::{ObjectHeader, ObjectState, SemSlot};

impl Member {
    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn set_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let set = self.set(id)?;
        self.set_permission(&set)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, set.lock(), "sem-set", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            registry::set_owner(txn, set.slot, uid, gid, mode).map(Ok)
        }))
    }

    /// IPC_STAT; SEM_STAT and SEM_STAT_ANY by `set_at_index`.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_stat(&self, id: i32, caller: &dyn Caller) -> Result<SetStat, Errno> {
        let set = self.set_of_size(id)?;
        let stat = self.set_row(&set)?;
        stat.permission.allow(caller, READ)?;
        Ok(stat)
    }

    /// SEM_STAT (`any` false) and SEM_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<SetStat, Errno> {
        let id = self.id_at(Kind::Semaphore, index)?;
        let stat = self.set_row(&self.set_of_size(id)?)?;
        if !any {
            stat.permission.allow(caller, READ)?;
        }
        Ok(stat)
    }

    fn set_row(&self, set: &Set) -> Result<SetStat, Errno> {
        let map = self.pool().map();
        let read = || -> Verdict<SetStat> {
            Ok(Ok(SetStat {
                id: Place { index: set.index, sequence: set.sequence }.id(),
                permission: Permission::read(map, set.slot)?,
                count: set.count,
                operated: load_value(map, field!(set.slot, ObjectHeader, used))?,
                changed: load_value(map, field!(set.slot, ObjectHeader, changed))?,
            }))
        };
        settle(read())
    }

    /// SEM_INFO.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn sem_info(&self) -> Result<SemInfo, Errno> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let count = || -> Verdict<SemInfo> {
            let sets = load_value(map, per_kind!(layout, in_use, Kind::Semaphore))?;
            let high = load_value(map, per_kind!(layout, high_water, Kind::Semaphore))?;
            let (mut semaphores, mut highest) = (0u32, 0);
            for index in 0..high.min(layout.sem.count as u32) {
                let slot = registry::slot_at(layout, Kind::Semaphore, index)?;
                if registry::standing(map, slot)?.is(ObjectState::Live) {
                    let count = load_value(map, field!(slot, SemSlot, count))?;
                    semaphores = semaphores.saturating_add(count);
                    highest = index;
                }
            }
            Ok(Ok(SemInfo { sets, semaphores, highest }))
        };
        settle(count())
    }
}
