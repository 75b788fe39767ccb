//! msgctl(2): IPC_RMID, and taking a removed queue apart.

use super::Queue;
use super::at;
use super::list::{pass_from_list, retry};
use super::ring::free_parked;
use crate::access::Caller;
use crate::heap::Chunk;
use crate::id::Kind;
use crate::registry::{self};
use crate::wait::{Rings, result_of};
use crate::{Errno, Member, settle};
use vshmem_sync::{Desk, field};
use vshmem_wire::{MsgSlot, ObjectHeader, ObjectState, WaitState};

impl Member {
    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        let queue = self.queue(id)?;
        self.queue_permission(&queue)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change_list(&desk, &queue, "msg-remove", |txn| {
            if !queue.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            txn.set(field!(queue.slot, ObjectHeader, state), queue.stands(ObjectState::Dying))?;
            registry::begin_task(txn, Kind::Queue, queue.index)?;
            Ok(Ok(()))
        }))?;
        self.dismantle_queue(&desk, &queue)
    }

    /// Takes a removed queue apart. May be done by anybody, several times, and be left halfway.
    pub(crate) fn dismantle_queue(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let dying = queue.stands(ObjectState::Dying);
        let state_at = field!(queue.slot, ObjectHeader, state);
        // Each round but the last takes a sleeper or a message away.
        let mut rounds = layout.threads.count + layout.unit_meta.count + 1;
        loop {
            rounds = rounds.checked_sub(1).ok_or(Errno::IO)?;
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-dismantle", |txn| {
                rings.clear();
                if txn.get(state_at)? != dying {
                    return Ok(Ok(true));
                }
                let gone = result_of(Errno::IDRM);
                for line in [queue.receivers(), queue.senders()] {
                    let done = WaitState::Done;
                    if retry(txn, layout, line, &mut rings, done, gone, |_, _| Ok(true))? {
                        return Ok(Ok(false));
                    }
                }
                while txn.room() >= 8 {
                    let Some(unit) = txn.get(at!(queue, head))?.checked_sub(1) else {
                        return Ok(Ok(true));
                    };
                    // Messages are never large enough for a run of slabs unless the limit was
                    // raised; those are given back by whoever takes them apart.
                    let next = txn.get(Chunk(unit).next(layout)?)?;
                    txn.set(at!(queue, head), next)?;
                    pass_from_list(txn, layout, Chunk(unit), 0)?;
                }
                Ok(Ok(false))
            });
            let finished = settle(step)?;
            self.ring_all(&rings);
            if finished {
                break;
            }
        }
        // The ring is closed, so there will be no new ones.
        settle(free_parked(pool.map(), layout, queue).map(Ok))?;
        settle(self.change(desk, pool.registry_lock(), "msg-free", |txn| {
            if txn.get(state_at)? != dying {
                return Ok(Ok(()));
            }
            registry::leave_key(txn, layout, Kind::Queue, queue.index)?;
            registry::free_slot(txn, layout, Kind::Queue, queue.index)?;
            registry::end_task(txn, Kind::Queue, queue.index)?;
            Ok(Ok(()))
        }))
    }
}
