//! semget(2).

use crate::access::{Caller, Permission, mode_of};
use crate::heap::{self, IN_OBJECT};
use crate::id::{Kind, Place};
use crate::registry::{self, MOST_TRIES, Standing, per_kind};
use crate::{Errno, Member, Verdict, floor, settle};
use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{CELL_BYTES, Geometry, Layout, ObjectHeader, ObjectState, SemSlot, SemWord};

impl Member {
    /// semget(2).
    ///
    /// # Errors
    /// As the man page says: EACCES, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC.
    pub fn semget(
        &self,
        key: i32,
        count: i32,
        flags: i32,
        caller: &dyn Caller,
    ) -> Result<i32, Errno> {
        let pool = self.pool();
        let (layout, geometry) = (pool.layout(), pool.geometry());
        if count < 0 || count as u32 > geometry.semmsl {
            return Err(Errno::INVAL);
        }
        let count = count as u32;
        for _ in 0..MOST_TRIES {
            if let Some(place) = self.existing(Kind::Semaphore, key, flags)? {
                let set = match self.set(place.id()) {
                    Err(Errno::INVAL) => continue,
                    found => found?,
                };
                if count > set.count {
                    return Err(Errno::INVAL);
                }
                settle(Permission::check_mode(pool.map(), set.slot, caller, mode_of(flags)))?;
                self.tell_size(Kind::Semaphore, place, set.count)?;
                return Ok(place.id());
            }
            if count == 0 {
                return Err(Errno::INVAL);
            }
            let seat = self.seat()?;
            let desk = self.desk_of(&seat);
            let chunk = self.take_chunk(&desk, u64::from(count) * CELL_BYTES)?;
            let make = || -> Verdict<Option<Place>> {
                let base = chunk.offset(layout)?;
                floor::lay_cells(pool.map(), layout, base, count, SemWord::default().pack())?;
                let permission = Permission::of_new(key, flags, caller);
                self.change(&desk, pool.registry_lock(), "semget", |txn| {
                    let exists = key != 0
                        && registry::find_key(layout, Kind::Semaphore, key, |at| txn.get(at))?
                            .is_some();
                    if exists {
                        return Ok(Ok(None));
                    }
                    if !has_room(txn, layout, geometry, count)? {
                        return Ok(Err(Errno::NOSPC));
                    }
                    let Some(place) = registry::take_slot(txn, layout, Kind::Semaphore)? else {
                        return Ok(Err(Errno::NOSPC));
                    };
                    let slot = registry::slot_at(layout, Kind::Semaphore, place.index)?;
                    registry::describe(txn, slot, &permission, seconds_now())?;
                    txn.update(field!(slot, SemSlot, count), count)?;
                    txn.update(field!(slot, SemSlot, words), chunk.0)?;
                    txn.update(field!(slot, ObjectHeader, used), 0)?;
                    heap::pass(txn, layout, chunk, self.me().word(), IN_OBJECT)?;
                    if key != 0 {
                        registry::enter_key(txn, layout, Kind::Semaphore, place.index, key)?;
                    }
                    let live =
                        Standing { state: ObjectState::Live as u32, sequence: place.sequence };
                    txn.set(field!(slot, ObjectHeader, state), live.pack())?;
                    Ok(Ok(Some(place)))
                })
            };
            let made = settle(make());
            if !matches!(made, Ok(Some(_))) {
                let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
            }
            if let Some(place) = made? {
                self.tell_size(Kind::Semaphore, place, count)?;
                return Ok(place.id());
            }
        }
        Err(Errno::IO)
    }
}

/// Whether a set of `count` semaphores keeps within SEMMNS, the limit on all of them together.
///
/// They are counted one set after the other, and only where the other limits allow as many at all:
/// Linux's defaults do not. A counter would be one more word to go wrong.
fn has_room(
    txn: &mut Txn<'_>,
    layout: &Layout,
    geometry: &Geometry,
    count: u32,
) -> Result<bool, Fault> {
    let most = u64::from(geometry.semmni) * u64::from(geometry.semmsl);
    if u64::from(geometry.semmns) >= most {
        return Ok(true);
    }
    let mut used = u64::from(count);
    let high = txn.get(per_kind!(layout, high_water, Kind::Semaphore))?;
    for index in 0..high.min(layout.sem.count as u32) {
        let slot = registry::slot_at(layout, Kind::Semaphore, index)?;
        if Standing::unpack(txn.get(field!(slot, ObjectHeader, state))?).is(ObjectState::Live) {
            used += u64::from(txn.get(field!(slot, SemSlot, count))?);
        }
    }
    Ok(used <= u64::from(geometry.semmns))
}
