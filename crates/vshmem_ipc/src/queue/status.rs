//! msgctl(2): owner, mode, limit, and totals.

use super::at;
use super::list::retry;
use super::ring::ring_totals;
use super::{MsgInfo, Queue, QueueStat};
use crate::access::{Caller, Permission, READ};
use crate::id::{Kind, Place};
use crate::registry::{self, per_kind};
use crate::wait::Rings;
use crate::{Errno, Member, Verdict, settle};
use vshmem_mem::Map;
use vshmem_sync::{Fault, field, load_value};
use vshmem_wire::{Layout, MsgSlot, ObjectHeader, ObjectState, WaitState};

/// Messages of the queue in a slot and their bytes, in list and ring.
pub(crate) fn totals(map: &Map, layout: &Layout, slot: u64) -> Result<(u32, u32), Fault> {
    let (count, bytes) = ring_totals(map, layout, slot)?;
    let listed = load_value(map, field!(slot, MsgSlot, count))?;
    let bytes_listed = load_value(map, field!(slot, MsgSlot, bytes))?;
    Ok((listed.saturating_add(count), bytes_listed.saturating_add(bytes)))
}

impl Member {
    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        limit: u64,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let queue = self.queue(id)?;
        self.queue_permission(&queue)?.allow_control(caller)?;
        if limit > u64::from(self.pool().geometry().msgmnb) && !caller.unlimited() {
            return Err(Errno::PERM);
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let layout = self.pool().layout();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change_list(&desk, &queue, "msg-set", |txn| {
            if !queue.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            txn.update(at!(queue, limit), limit)?;
            registry::set_owner(txn, queue.slot, uid, gid, mode).map(Ok)
        }))?;
        // Everybody looks again: modes and room may be other ones now.
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(&desk, queue.lock(), "msg-set-wake", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Ok(false));
                }
                let mut more = false;
                for line in [queue.receivers(), queue.senders()] {
                    more |=
                        retry(txn, layout, line, &mut rings, WaitState::Retry, 0, |_, _| Ok(true))?;
                }
                Ok(Ok(more))
            });
            let more = settle(step)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// IPC_STAT.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_stat(&self, id: i32, caller: &dyn Caller) -> Result<QueueStat, Errno> {
        let stat = self.queue_row(&self.queue(id)?)?;
        stat.permission.allow(caller, READ)?;
        Ok(stat)
    }

    /// MSG_STAT (`any` false) and MSG_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<QueueStat, Errno> {
        let id = self.id_at(Kind::Queue, index)?;
        let stat = self.queue_row(&self.queue(id)?)?;
        if !any {
            stat.permission.allow(caller, READ)?;
        }
        Ok(stat)
    }

    fn queue_row(&self, queue: &Queue) -> Result<QueueStat, Errno> {
        let map = self.pool().map();
        let get = |at: u64| load_value(map, at);
        let read = || -> Verdict<QueueStat> {
            let (count, bytes) = totals(map, self.pool().layout(), queue.slot)?;
            Ok(Ok(QueueStat {
                id: Place { index: queue.index, sequence: queue.sequence }.id(),
                permission: Permission::read(map, queue.slot)?,
                bytes,
                count,
                limit: get(at!(queue, limit))?,
                sender: self.pid_here(get(at!(queue, sender))?),
                receiver: self.pid_here(get(at!(queue, receiver))?),
                sent: get(at!(queue, sent))?,
                received: get(at!(queue, received))?,
                changed: get(field!(queue.slot, ObjectHeader, changed))?,
            }))
        };
        settle(read())
    }

    /// MSG_INFO.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn msg_info(&self) -> Result<MsgInfo, Errno> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let count = || -> Verdict<MsgInfo> {
            let queues = load_value(map, per_kind!(layout, in_use, Kind::Queue))?;
            let high = load_value(map, per_kind!(layout, high_water, Kind::Queue))?;
            let mut info = MsgInfo { queues, messages: 0, bytes: 0, highest: 0 };
            for index in 0..high.min(layout.msg.count as u32) {
                let slot = registry::slot_at(layout, Kind::Queue, index)?;
                if registry::standing(map, slot)?.is(ObjectState::Live) {
                    let (messages, bytes) = totals(map, layout, slot)?;
                    info.messages = info.messages.saturating_add(messages);
                    info.bytes = info.bytes.saturating_add(bytes);
                    info.highest = index;
                }
            }
            Ok(Ok(info))
        };
        settle(count())
    }
}
