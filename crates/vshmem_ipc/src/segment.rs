//! Shared memory segments: shmget(2), shmop(2), shmctl(2).
//!
//! # Locking
//! Everything is under the registry lock; steps are short. Memory is made ready (backed, zeroed)
//! outside it, while the segment is `Creating` and known to its maker alone.

use vshmem_mem::seconds_now;
use vshmem_sync::{Desk, Fault, Txn, field, load_value};
use vshmem_wire::{
    AttachSlot, ClientSlot, Layout, ObjectHeader, ObjectState, PAGE_BYTES, Registry, ShmSlot,
};

use crate::access::{Caller, Permission, READ, WRITE, mode_of};
use crate::extent;
use crate::id::{Kind, Place};
use crate::member::client_at;
use crate::registry::{self, MOST_TRIES, Standing, per_kind};
use crate::{Backing, Errno, Member, Verdict, settle};

/// IPC_CREAT.
const CREATE: i32 = 0o1000;
/// IPC_EXCL.
const EXCLUSIVE: i32 = 0o2000;
/// SHM_DEST in a mode.
const DESTROYED: u32 = 0o1000;
/// SHM_LOCKED in a mode.
const LOCKED: u32 = 0o2000;
/// Pages of the largest page that segments are aligned to, and the size from which they are.
const LARGE_PAGES: u32 = 512;

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

pub(crate) fn attach_at(layout: &Layout, record: u32) -> Result<u64, Fault> {
    layout.attaches.at(record).ok_or(Fault::corrupt(layout.attaches.offset, "no attach record"))
}

macro_rules! at {
    ($slot:expr, $field:ident) => {
        field!($slot, ShmSlot, $field)
    };
}

/// Finds a client's attach record of a segment, with the cell that points to it.
fn find_record(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: u32,
    segment: u32,
) -> Result<Option<(u64, u64)>, Fault> {
    let mut link = field!(client_at(layout, client)?, ClientSlot, attaches);
    for _ in 0..=layout.attaches.count {
        let Some(record) = txn.get(link)?.checked_sub(1) else {
            return Ok(None);
        };
        let at = attach_at(layout, record)?;
        if txn.get(field!(at, AttachSlot, segment))? == segment + 1 {
            return Ok(Some((at, link)));
        }
        link = field!(at, AttachSlot, next);
    }
    Err(Fault::corrupt(link, "an attach list without an end"))
}

/// Adds `count` attaches of a client; false when there is no record left.
fn attach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: u32,
    segment: u32,
    count: u32,
) -> Result<bool, Fault> {
    let slot = registry::slot_at(layout, Kind::Segment, segment)?;
    if let Some((at, _)) = find_record(txn, layout, client, segment)? {
        let before = txn.get(field!(at, AttachSlot, count))?;
        txn.set(field!(at, AttachSlot, count), before.saturating_add(count))?;
    } else {
        let hint_at = field!(layout.registry, Registry, attach_hint);
        let records = layout.attaches.count as u32;
        let hint = txn.get(hint_at)? % records;
        let mut free = None;
        for step in 0..records {
            let record = (hint + step) % records;
            let at = attach_at(layout, record)?;
            if txn.get(field!(at, AttachSlot, segment))? == 0 {
                free = Some((record, at));
                break;
            }
        }
        let Some((record, at)) = free else {
            return Ok(false);
        };
        let head_at = field!(client_at(layout, client)?, ClientSlot, attaches);
        let head = txn.get(head_at)?;
        txn.set(hint_at, record + 1)?;
        txn.set(field!(at, AttachSlot, segment), segment + 1)?;
        txn.set(field!(at, AttachSlot, count), count)?;
        txn.set(field!(at, AttachSlot, next), head)?;
        txn.set(field!(at, AttachSlot, client), client + 1)?;
        txn.set(head_at, record + 1)?;
    }
    let attached = txn.get(at!(slot, attached))?;
    txn.set(at!(slot, attached), attached.saturating_add(count))?;
    Ok(true)
}

/// Takes `count` attaches (all: `u32::MAX`) of a client away, and the segment with the last one if
/// it was removed before. Says whether there was such an attach.
fn detach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: u32,
    segment: u32,
    count: u32,
) -> Result<bool, Fault> {
    let Some((at, link)) = find_record(txn, layout, client, segment)? else {
        return Ok(false);
    };
    let slot = registry::slot_at(layout, Kind::Segment, segment)?;
    let held = txn.get(field!(at, AttachSlot, count))?;
    let gone = held.min(count);
    if gone < held {
        txn.set(field!(at, AttachSlot, count), held - gone)?;
    } else {
        let next = txn.get(field!(at, AttachSlot, next))?;
        txn.set(link, next)?;
        txn.set(field!(at, AttachSlot, segment), 0)?;
        txn.set(field!(at, AttachSlot, client), 0)?;
    }
    let attached = txn.get(at!(slot, attached))?.saturating_sub(gone);
    txn.set(at!(slot, attached), attached)?;
    txn.update(at!(slot, detach_time), seconds_now())?;
    let standing = Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?);
    if attached == 0 && standing.is(ObjectState::Doomed) {
        destroy(txn, layout, segment)?;
    }
    Ok(true)
}

/// Frees the pages and the slot of a segment whose key has gone.
fn destroy(txn: &mut Txn<'_>, layout: &Layout, segment: u32) -> Result<(), Fault> {
    let slot = registry::slot_at(layout, Kind::Segment, segment)?;
    let first = txn.get(at!(slot, first_page))?;
    let pages = txn.get(at!(slot, pages))?;
    extent::release(txn, layout, first, pages, true)?;
    registry::free_slot(txn, layout, Kind::Segment, segment)
}

/// Pages of a segment of so many bytes.
fn pages_of(bytes: u64) -> Result<u32, Errno> {
    u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| Errno::IO)
}

impl Member {
    /// The slot of an id: a live segment, or one that is removed and still attached.
    fn segment(&self, id: i32) -> Result<(Place, u64), Errno> {
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        let look = || -> Verdict<u64> {
            let Some(slot) = self.pool().layout().shm.at(place.index) else {
                return Ok(Err(Errno::INVAL));
            };
            let standing = registry::standing(self.pool().map(), slot)?;
            let there = standing.is(ObjectState::Live) || standing.is(ObjectState::Doomed);
            let same = standing.sequence == place.sequence;
            Ok(if there && same { Ok(slot) } else { Err(Errno::INVAL) })
        };
        Ok((place, settle(look())?))
    }

    fn segment_permission(&self, slot: u64) -> Result<Permission, Errno> {
        settle(Permission::read(self.pool().map(), slot).map(Ok))
    }

    fn size_of(&self, slot: u64) -> Result<u64, Fault> {
        let map = self.pool().map();
        let low = load_value(map, at!(slot, size_low))?;
        let high = load_value(map, at!(slot, size_high))?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// shmget(2). New memory is made ready by `backing`.
    ///
    /// # Errors
    /// As the man page says; ENOSPC when the pool has no room.
    pub fn shmget(
        &self,
        key: i32,
        size: u64,
        flags: i32,
        caller: &dyn Caller,
        backing: &dyn Backing,
    ) -> Result<i32, Errno> {
        let pool = self.pool();
        let geometry = pool.geometry();
        for _ in 0..MOST_TRIES {
            if key != 0
                && let Some(place) = self.find_existing(Kind::Segment, key)?
            {
                if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
                    return Err(Errno::EXIST);
                }
                let slot = match self.segment(place.id()) {
                    Err(Errno::INVAL) => continue,
                    found => found?.1,
                };
                let found = settle(self.size_of(slot).map(Ok))?;
                if found < size {
                    return Err(Errno::INVAL);
                }
                self.segment_permission(slot)?.allow(caller, mode_of(flags))?;
                self.tell_size(Kind::Segment, place, pages_of(found)?)?;
                return Ok(place.id());
            }
            if key != 0 && flags & CREATE == 0 {
                return Err(Errno::NOENT);
            }
            if size < u64::from(geometry.shmmin) || size > geometry.shmmax {
                return Err(Errno::INVAL);
            }
            let Ok(pages) = u32::try_from(size.div_ceil(PAGE_BYTES)) else {
                return Err(Errno::NOSPC);
            };
            let seat = self.seat()?;
            let desk = self.desk_of(&seat);
            let (place, extent) = self.begin_segment(&desk, pages)?;
            let base = pool.layout().data.offset + u64::from(extent.first) * PAGE_BYTES;
            let bytes = u64::from(pages) * PAGE_BYTES;
            let ready = backing.prepare(base, bytes, extent.dirty);
            let published = match ready {
                Ok(()) => self.publish_segment(&desk, place, key, size, flags, caller),
                Err(errno) => Err(errno),
            };
            if !matches!(published, Ok(true)) {
                self.abandon_segment(&desk, place);
            }
            if published? {
                self.tell_size(Kind::Segment, place, pages)?;
                return Ok(place.id());
            }
        }
        Err(Errno::IO)
    }

    /// Takes a slot and pages; the segment is `Creating` and names this client as its maker.
    fn begin_segment(&self, desk: &Desk<'_>, pages: u32) -> Result<(Place, extent::Extent), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let shmall = pool.geometry().shmall;
        let step = self.change(desk, pool.registry_lock(), "shmget-begin", |txn| {
            let used = txn.get(field!(layout.registry, Registry, pages_used))?;
            if u64::from(used) + u64::from(pages) > shmall {
                return Ok(Err(Errno::NOSPC));
            }
            let align = if pages >= LARGE_PAGES { LARGE_PAGES } else { 1 };
            let mut extent = extent::allocate(txn, layout, pages, align)?;
            if extent.is_none() && align > 1 {
                extent = extent::allocate(txn, layout, pages, 1)?;
            }
            let Some(extent) = extent else {
                return Ok(Err(Errno::NOSPC));
            };
            let Some(place) = registry::take_slot(txn, layout, Kind::Segment)? else {
                txn.clear();
                return Ok(Err(Errno::NOSPC));
            };
            let slot = registry::slot_at(layout, Kind::Segment, place.index)?;
            let creating =
                Standing { state: ObjectState::Creating as u32, sequence: place.sequence };
            txn.set(field!(slot, ObjectHeader, state), creating.pack())?;
            txn.update(at!(slot, first_page), extent.first)?;
            txn.update(at!(slot, pages), extent.pages)?;
            txn.update(at!(slot, attached), 0)?;
            txn.update(at!(slot, maker), self.me() + 1)?;
            Ok(Ok((place, extent)))
        });
        settle(step)
    }

    /// Gives a ready segment its key. False when somebody else has made one of that key meanwhile.
    fn publish_segment(
        &self,
        desk: &Desk<'_>,
        place: Place,
        key: i32,
        size: u64,
        flags: i32,
        caller: &dyn Caller,
    ) -> Result<bool, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let permission = Permission {
            key,
            uid: caller.uid(),
            gid: caller.gid(),
            cuid: caller.uid(),
            cgid: caller.gid(),
            mode: mode_of(flags),
            sequence: 0,
        };
        settle(self.change(desk, pool.registry_lock(), "shmget", |txn| {
            let exists = key != 0
                && registry::find_key(layout, Kind::Segment, key, |at| txn.get(at))?.is_some();
            if exists {
                return Ok(Ok(false));
            }
            let slot = registry::slot_at(layout, Kind::Segment, place.index)?;
            registry::describe(txn, slot, &permission, seconds_now())?;
            txn.update(at!(slot, size_low), size as u32)?;
            txn.update(at!(slot, size_high), (size >> 32) as u32)?;
            txn.update(at!(slot, attach_time), 0)?;
            txn.update(at!(slot, detach_time), 0)?;
            txn.update(at!(slot, creator), self.party().pack())?;
            txn.update(at!(slot, last), 0)?;
            txn.update(at!(slot, maker), 0)?;
            if key != 0 {
                registry::enter_key(txn, layout, Kind::Segment, place.index, key)?;
            }
            let live = Standing { state: ObjectState::Live as u32, sequence: place.sequence };
            txn.set(field!(slot, ObjectHeader, state), live.pack())?;
            Ok(Ok(true))
        }))
    }

    /// Gives a segment that is still `Creating` back.
    pub(crate) fn abandon_segment(&self, desk: &Desk<'_>, place: Place) {
        let pool = self.pool();
        let layout = pool.layout();
        let creating = Standing { state: ObjectState::Creating as u32, sequence: place.sequence };
        // What cannot be given back now is when this client ends.
        let _ = self.change(desk, pool.registry_lock(), "shmget-abandon", |txn| {
            let slot = registry::slot_at(layout, Kind::Segment, place.index)?;
            if txn.get(field!(slot, ObjectHeader, state))? == creating.pack() {
                txn.set(at!(slot, maker), 0)?;
                destroy(txn, layout, place.index)?;
            }
            Ok(Ok(()))
        });
    }

    /// The shared part of shmat(2): checks, counts, and says where the segment lies.
    ///
    /// # Errors
    /// EACCES, EINVAL (or EIDRM when it went just now), ENOMEM.
    pub fn shmat(
        &self,
        id: i32,
        write: bool,
        execute: bool,
        caller: &dyn Caller,
    ) -> Result<Attachment, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let (place, slot) = self.segment(id)?;
        let wanted = READ | if write { WRITE } else { 0 } | u32::from(execute);
        self.segment_permission(slot)?.allow(caller, wanted)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let told = pages_of(settle(self.size_of(slot).map(Ok))?)?;
        self.hold_size(Kind::Segment, place, told)?;
        settle(self.change(&desk, pool.registry_lock(), "shmat", |txn| {
            let standing = Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?);
            let there = standing.is(ObjectState::Live) || standing.is(ObjectState::Doomed);
            if !there || standing.sequence != place.sequence {
                return Ok(Err(Errno::IDRM));
            }
            let first = txn.get(at!(slot, first_page))?;
            let pages = txn.get(at!(slot, pages))?;
            if pages != told || u64::from(first) + u64::from(pages) > layout.data.count {
                return Err(Fault::corrupt(slot, "a segment outside the pool"));
            }
            if !attach(txn, layout, self.me(), place.index, 1)? {
                return Ok(Err(Errno::NOMEM));
            }
            txn.update(at!(slot, attach_time), seconds_now())?;
            txn.update(at!(slot, last), self.party().pack())?;
            Ok(Ok(Attachment {
                id,
                offset: layout.data.offset + u64::from(first) * PAGE_BYTES,
                bytes: u64::from(pages) * PAGE_BYTES,
            }))
        }))
    }

    /// The shared part of shmdt(2): one attach of this process less.
    ///
    /// # Errors
    /// EINVAL when this process has none.
    pub fn shmdt(&self, id: i32) -> Result<(), Errno> {
        let layout = self.pool().layout();
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        let slot = layout.shm.at(place.index).ok_or(Errno::INVAL)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, self.pool().registry_lock(), "shmdt", |txn| {
            let standing = Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?);
            if standing.sequence != place.sequence {
                return Ok(Err(Errno::INVAL));
            }
            if !detach(txn, layout, self.me(), place.index, 1)? {
                return Ok(Err(Errno::INVAL));
            }
            txn.update(at!(slot, last), self.party().pack())?;
            Ok(Ok(()))
        }))
    }

    /// Counts one more attach of a segment that this process has attached already: what a hole in
    /// a mapping does.
    ///
    /// # Errors
    /// EINVAL, ENOMEM.
    pub fn attach_again(&self, id: i32) -> Result<(), Errno> {
        let (place, _) = self.segment(id)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let added = settle(self.add_attaches(&desk, self.me(), place.index, 1).map(Ok))?;
        if added { Ok(()) } else { Err(Errno::NOMEM) }
    }

    /// Adds attaches for a client; false when there is no record left.
    pub(crate) fn add_attaches(
        &self,
        desk: &Desk<'_>,
        client: u32,
        segment: u32,
        count: u32,
    ) -> Result<bool, Fault> {
        let layout = self.pool().layout();
        vshmem_sync::with_lock(*desk, self.pool().registry_lock(), "attach", |txn| {
            attach(txn, layout, client, segment, count)
        })
    }

    /// Takes all attaches of a client away. May be left halfway and begun again.
    pub(crate) fn leave_attaches(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let layout = self.pool().layout();
        let head_at = field!(client_at(layout, client)?, ClientSlot, attaches);
        for _ in 0..=layout.attaches.count {
            let more = vshmem_sync::with_lock(
                *desk,
                self.pool().registry_lock(),
                "leave-attach",
                |txn| {
                    let Some(record) = txn.get(head_at)?.checked_sub(1) else {
                        return Ok(false);
                    };
                    let at = attach_at(layout, record)?;
                    if txn.get(field!(at, AttachSlot, client))? != client + 1 {
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
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn detach_all(&self) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.leave_attaches(&self.desk_of(&seat), self.me()).map(Ok))
    }

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
            registry::leave_key(txn, layout, Kind::Segment, place.index)?;
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
            registry::set_owner(txn, slot, uid, gid, mode).map(Ok)
        }))
    }

    /// SHM_LOCK and SHM_UNLOCK: pool memory never goes to swap, so only the flag changes.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn segment_lock(&self, id: i32, lock: bool, caller: &dyn Caller) -> Result<(), Errno> {
        let (_, slot) = self.segment(id)?;
        self.segment_permission(slot)?.allow_control(caller)?;
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
        let size = settle(self.size_of(slot).map(Ok))?;
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
                let slot = registry::slot_at(layout, Kind::Segment, index)?;
                let standing = registry::standing(map, slot)?;
                if standing.is(ObjectState::Live) || standing.is(ObjectState::Doomed) {
                    highest = index;
                }
            }
            Ok(Ok(ShmInfo { segments, pages, highest }))
        };
        settle(count())
    }
}
