//! msgget(2).

use super::Queue;
use super::at;
use super::ring::new_ring;
use crate::access::{Caller, Permission, mode_of};
use crate::id::Kind;
use crate::registry::{self, MOST_TRIES};
use crate::{Errno, Member, settle};
use vshmem_mem::seconds_now;
use vshmem_sync::field;
use vshmem_wire::{MsgSlot, ObjectHeader, ObjectState};

impl Member {
    /// msgget(2).
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgget(&self, key: i32, flags: i32, caller: &dyn Caller) -> Result<i32, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        for _ in 0..MOST_TRIES {
            if let Some(place) = self.existing(Kind::Queue, key, flags)? {
                let queue = match self.queue(place.id()) {
                    Err(Errno::INVAL) => continue,
                    found => found?,
                };
                self.queue_permission(&queue)?.allow(caller, mode_of(flags))?;
                return Ok(place.id());
            }
            let permission = Permission::of_new(key, flags, caller);
            let seat = self.seat()?;
            let desk = self.desk_of(&seat);
            let made = self.change(&desk, pool.registry_lock(), "msgget", |txn| {
                let exists = key != 0
                    && registry::find_key(layout, Kind::Queue, key, |at| txn.get(at))?.is_some();
                if exists {
                    return Ok(Ok(None));
                }
                let Some(place) = registry::take_slot(txn, layout, Kind::Queue)? else {
                    return Ok(Err(Errno::NOSPC));
                };
                let slot = registry::slot_at(layout, Kind::Queue, place.index)?;
                let queue = Queue { index: place.index, sequence: place.sequence, slot };
                registry::describe(txn, slot, &permission, seconds_now())?;
                txn.update(at!(queue, limit), pool.geometry().msgmnb)?;
                for cell in [
                    at!(queue, bytes),
                    at!(queue, count),
                    at!(queue, head),
                    at!(queue, tail),
                    at!(queue, sender),
                    at!(queue, receiver),
                    at!(queue, sent),
                    at!(queue, received),
                ] {
                    txn.update(cell, 0)?;
                }
                new_ring(txn, &queue, pool.geometry().msgmnb)?;
                if key != 0 {
                    registry::enter_key(txn, layout, Kind::Queue, place.index, key)?;
                }
                txn.set(field!(slot, ObjectHeader, state), queue.stands(ObjectState::Live))?;
                Ok(Ok(Some(place)))
            });
            if let Some(place) = settle(made)? {
                return Ok(place.id());
            }
        }
        Err(Errno::IO)
    }
}
