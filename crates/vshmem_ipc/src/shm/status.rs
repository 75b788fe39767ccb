//! shmctl(2).

use rustix::io::Errno;
use vshmem_sync::{field, load_value};
use vshmem_wire::{ObjectHeader, ObjectState, PAGE_BYTES, Registry, ShmSlot};

use crate::context::Member;
use crate::error::{Verdict, settle};
use crate::registry::id::{Kind, Place};
use crate::registry::permission::{Caller, Permission, READ};
use crate::registry::table::{self, Standing, per_kind};
use crate::shm::record::destroy;
use crate::shm::segment::{SegmentStat, ShmInfo, at, pages_of};

/// SHM_DEST in a mode.
const DESTROYED: u32 = 0o1000;
/// SHM_LOCKED in a mode.
const LOCKED: u32 = 0o2000;

impl Member {
    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn segment_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        let layout = self.pool().layout();
        let (place, slot) = self.segment(id)?;
        self.segment_permission(slot)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, self.pool().registry_lock(), "shm-remove", |txn| {
            let standing = Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?);
            if standing.sequence != place.sequence {
                return Ok(Err(Errno::IDRM));
            }
            if standing.is(ObjectState::Doomed) {
                return Ok(Ok(()));
            }
            table::leave_key(txn, layout, Kind::Segment, place.index)?;
            txn.update(field!(slot, ObjectHeader, key), 0)?;
            let mode_at = field!(slot, ObjectHeader, mode);
            let mode = txn.get(mode_at)?;
            txn.update(mode_at, mode | DESTROYED)?;
            if txn.get(at!(slot, attached))? == 0 {
                destroy(txn, layout, place.index)?;
            } else {
                let doomed =
                    Standing { state: ObjectState::Doomed as u32, sequence: place.sequence };
                txn.set(field!(slot, ObjectHeader, state), doomed.pack())?;
            }
            Ok(Ok(()))
        }))
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn segment_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let (place, slot) = self.segment(id)?;
        self.segment_permission(slot)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, self.pool().registry_lock(), "shm-set", |txn| {
            let standing = Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?);
            if standing.sequence != place.sequence {
                return Ok(Err(Errno::IDRM));
            }
            table::set_owner(txn, slot, uid, gid, mode).map(Ok)
        }))
    }

    /// SHM_LOCK and SHM_UNLOCK: pool memory never goes to swap, so only the flag changes. `most` is
    /// what the caller may lock (RLIMIT_MEMLOCK); without, it has CAP_IPC_LOCK and may do all.
    ///
    /// # Errors
    /// EINVAL, EPERM, ENOMEM.
    pub fn segment_lock(
        &self,
        id: i32,
        lock: bool,
        most: Option<u64>,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let (place, slot) = self.segment(id)?;
        let permission = self.segment_permission(slot)?;
        if let Some(most) = most {
            // CAP_SYS_ADMIN is no help here (shmctl_do_lock of ipc/shm.c).
            if !permission.belongs_to(caller) || (lock && most == 0) {
                return Err(Errno::PERM);
            }
            let locked = permission.mode & LOCKED != 0;
            let bytes = u64::from(pages_of(self.size_of(place, slot)?)?) * PAGE_BYTES;
            if lock && !locked && bytes > most {
                return Err(Errno::NOMEM);
            }
        }
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, self.pool().registry_lock(), "shm-lock", |txn| {
            let mode_at = field!(slot, ObjectHeader, mode);
            let mode = txn.get(mode_at)?;
            txn.update(mode_at, if lock { mode | LOCKED } else { mode & !LOCKED })?;
            Ok(Ok(()))
        }))
    }

    /// IPC_STAT.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn segment_stat(&self, id: i32, caller: &dyn Caller) -> Result<SegmentStat, Errno> {
        let (place, slot) = self.segment(id)?;
        let stat = self.segment_row(place, slot)?;
        stat.permission.allow(caller, READ)?;
        Ok(stat)
    }

    /// SHM_STAT (`any` false) and SHM_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn segment_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<SegmentStat, Errno> {
        let (place, slot) = self.segment(self.id_at(Kind::Segment, index)?)?;
        let stat = self.segment_row(place, slot)?;
        if !any {
            stat.permission.allow(caller, READ)?;
        }
        Ok(stat)
    }

    fn segment_row(&self, place: Place, slot: u64) -> Result<SegmentStat, Errno> {
        let map = self.pool().map();
        let get = |at: u64| load_value(map, at);
        let size = self.size_of(place, slot)?;
        self.hold_size(Kind::Segment, place, pages_of(size)?)?;
        let read = || -> Verdict<SegmentStat> {
            Ok(Ok(SegmentStat {
                id: place.id(),
                permission: Permission::read(map, slot)?,
                size,
                attached: get(at!(slot, attached))?,
                creator: self.pid_here(get(at!(slot, creator))?),
                last: self.pid_here(get(at!(slot, last))?),
                attach_time: get(at!(slot, attach_time))?,
                detach_time: get(at!(slot, detach_time))?,
                changed: get(field!(slot, ObjectHeader, changed))?,
            }))
        };
        settle(read())
    }

    /// SHM_INFO.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn shm_info(&self) -> Result<ShmInfo, Errno> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let count = || -> Verdict<ShmInfo> {
            let segments = load_value(map, per_kind!(layout, in_use, Kind::Segment))?;
            let pages = load_value(map, field!(layout.registry, Registry, pages_used))?;
            let high = load_value(map, per_kind!(layout, high_water, Kind::Segment))?;
            let mut highest = 0;
            for index in 0..high.min(layout.shm.count as u32) {
                let slot = table::slot_at(layout, Kind::Segment, index)?;
                let standing = table::standing(map, slot)?;
                if standing.is(ObjectState::Live) || standing.is(ObjectState::Doomed) {
                    highest = index;
                }
            }
            Ok(Ok(ShmInfo { segments, pages, highest }))
        };
        settle(count())
    }
}
