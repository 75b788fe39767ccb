//! Sleeping at a queue, and serving those who sleep.

use super::Queue;
use super::at;
use super::list::{find, retry, wake_senders};
use crate::message::Search;
use crate::wait::{Line, Rings, Woken};
use crate::{Errno, Member, settle};
use vshmem_mem::Ordering;
use vshmem_sync::{Desk, Fault, Seat, field, load_value};
use vshmem_wire::{MsgSlot, ObjectHeader, ObjectState, ThreadSlot, WaitState};

impl Member {
    /// Sleeps in a line of the queue; `has_looked` says that it need not look for a while first.
    pub(super) fn sleep_at_queue(
        &self,
        queue: &Queue,
        line: Line,
        has_looked: bool,
        signals_seen: u32,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Result<Woken, Errno> {
        let tend = || match self.tend_queue(desk, queue) {
            Ok(()) => Ok(()),
            Err(_) => Err(Fault::corrupt(queue.slot, "a queue that cannot be served")),
        };
        settle(self.sleep_in_line(seat, line, has_looked, None, signals_seen, tend).map(Ok))
    }

    /// Sends receivers to try again for whom there is a message.
    pub(super) fn serve_receivers(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let layout = self.pool().layout();
        // Each round but the last takes somebody off the line; so in those below.
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-serve-receivers", |txn| {
                rings.clear();
                if !queue.alive(txn)? || txn.get(at!(queue, head))? == 0 {
                    return Ok(Ok(false));
                }
                let line = queue.receivers();
                let again = WaitState::Retry;
                let more = retry(txn, layout, line, &mut rings, again, 0, |txn, at| {
                    let map = txn.desk().map;
                    let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
                    let kind = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
                    Ok(find(txn, layout, queue, Search::unpack(mode, kind))?.is_some())
                })?;
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

    pub(super) fn serve_senders(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let layout = self.pool().layout();
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-serve", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Ok(false));
                }
                wake_senders(txn, layout, queue, &mut rings).map(Ok)
            });
            let more = settle(step)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// Makes up for somebody who died halfway: sends sleepers to try again, or goes on taking the
    /// queue apart.
    pub(crate) fn tend_queue(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let map = self.pool().map();
        let state = settle(load_value(map, field!(queue.slot, ObjectHeader, state)).map(Ok))?;
        if state == queue.stands(ObjectState::Dying) {
            return self.dismantle_queue(desk, queue);
        }
        self.serve_senders(desk, queue)?;
        self.serve_receivers(desk, queue)
    }
}
