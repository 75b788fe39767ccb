//! Processes that are about to end, and say so.
//!
//! exit(3) calls us while other threads, and destructors after ours, still store into what is attached:
//! nothing of it may be given away yet. So the process leaves a note, and who sees that it has ended
//! gives back what it held: its parent, the agent, or whoever asks about objects first.

use rustix::io::Errno;
use vshmem_sync::{Desk, Fault, field, load_value, with_lock};
use vshmem_wire::{ClientSlot, ClientState, Registry};

use crate::context::{self, Member, client_at, slot_of};
use crate::error::settle;

impl Member {
    /// Notes that this process is about to end.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn announce_end(&self) -> Result<(), Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let layout = self.pool().layout();
        let announce = || -> Result<(), Fault> {
            let slot = slot_of(layout, self.me())?;
            with_lock(desk, self.pool().registry_lock(), "announce-end", |txn| {
                if context::is_in(txn, slot, self.me())? {
                    txn.update(field!(slot, ClientSlot, leaving), 1)?;
                    txn.update(field!(layout.registry, Registry, leavers), 1)?;
                }
                Ok(())
            })
        };
        settle(announce().map(Ok))
    }

    /// Whether somebody may have announced its end. Costs one load.
    #[must_use]
    #[inline]
    pub fn somebody_leaves(&self) -> bool {
        let at = field!(self.pool().layout().registry, Registry, leavers);
        load_value(self.pool().map(), at).is_ok_and(|leavers| leavers != 0)
    }

    /// Buries the processes of this domain that had announced their end and have come to it, as `gone`
    /// says by their pids. Without the heap. True when there was one.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_leavers(&self, gone: &dyn Fn(u32) -> bool) -> Result<bool, Errno> {
        let seat = self.seat()?;
        settle(self.bury_announced(&self.desk_of(&seat), gone).map(Ok))
    }

    fn bury_announced(&self, desk: &Desk<'_>, gone: &dyn Fn(u32) -> bool) -> Result<bool, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let (mut found, mut others_leave) = (false, false);
        for index in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, index)?;
            // The name first: if the slot changes hands after this, the burial finds another one there.
            let client = self.pool().named(index)?;
            let state = load_value(map, field!(slot, ClientSlot, state))?;
            let leaves = load_value(map, field!(slot, ClientSlot, leaving))? != 0;
            if !leaves || state == ClientState::Free as u32 {
                continue;
            }
            let here = state == ClientState::Active as u32
                && load_value(map, field!(slot, ClientSlot, domain))? == self.domain();
            let pid = load_value(map, field!(slot, ClientSlot, pid))?;
            if here && gone(pid) {
                self.bury_client(desk, client)?;
                found = true;
            } else {
                others_leave = true;
            }
        }
        // One that takes its time, perhaps in another domain, must not have everybody at the registry's lock.
        if !others_leave {
            self.forget_leavers(desk)?;
        }
        Ok(found)
    }

    /// Takes the note away that somebody leaves, if nobody does any more.
    fn forget_leavers(&self, desk: &Desk<'_>) -> Result<(), Fault> {
        let layout = self.pool().layout();
        with_lock(*desk, self.pool().registry_lock(), "forget-leavers", |txn| {
            let high = txn.get(field!(layout.registry, Registry, clients_high))?;
            for index in 0..high.min(layout.clients.count as u32) {
                let slot = client_at(layout, index)?;
                if txn.get(field!(slot, ClientSlot, state))? != ClientState::Free as u32
                    && txn.get(field!(slot, ClientSlot, leaving))? != 0
                {
                    return Ok(());
                }
            }
            txn.update(field!(layout.registry, Registry, leavers), 0)
        })
    }
}
