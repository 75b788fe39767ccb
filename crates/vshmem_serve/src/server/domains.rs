//! Which domain of the pool is which guest, who can be notified, and who is dead.

use std::collections::BTreeMap;

use rustix::io::Errno;
use vshmem_ipc::{Client, DomainRow};
use vshmem_wire::DomainState;

use super::Server;
use crate::event::Event;
use crate::stranded::has_mapped;

impl Server {
    /// Brings pool and peers together: which domain is which guest, and who can be notified.
    pub(super) fn match_domains(&mut self) -> Result<(), Errno> {
        let Some(this_client) = self.client() else { return Ok(()) };
        // Guests tell the pool from a copy of it by this.
        this_client.pool().renew_heartbeat().map_err(|_| Errno::IO)?;
        let rows: Vec<DomainRow> = this_client.pool().domains()?;
        let mut changed = false;
        for row in rows.iter().filter(|row| row.state.takes_part()) {
            let Some(this_client) = self.client() else { return Ok(()) };
            if is_local(row, this_client) {
                // Notifications for the host are delivered here, to containers as well.
                let doorbell = self.paths.usual.then_some(u32::from(self.host));
                changed |=
                    row.address != doorbell && this_client.publish_for(row.index, doorbell)?;
                continue;
            }
            let Some(address) = row.address else { continue };
            let id = u16::try_from(address).ok();
            if let Some(id) = id.filter(|id| self.peers.contains_key(id)) {
                self.introduce(id, row, &rows);
                continue;
            }
            let stranded = self.stranded.iter_mut().find(|one| Some(one.peer.id) == id);
            if let Some(stranded) = stranded {
                stranded.peer.domains.insert(row.index, row.epoch);
            }
            let Some(this_client) = self.client() else { return Ok(()) };
            if this_client.lose_doorbell(row.index)? {
                changed = true;
                self.events.push(Event::Unreachable { name: row.name.clone() });
            }
        }
        if changed && let Some(this_client) = self.client() {
            this_client.wake_every_waiter();
        }
        if self.unsaved {
            self.save();
        }
        Ok(())
    }

    /// Notes that a domain is reached through a guest. One of another boot is a guest that has
    /// been reset, and what it was before is dead.
    fn introduce(&mut self, id: u16, row: &DomainRow, rows: &[DomainRow]) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.is_process = peer.is_process || has_mapped(peer.caller.pid, &self.memory);
        if peer.domains.insert(row.index, row.epoch) == Some(row.epoch) {
            return;
        }
        self.events.push(Event::Domain { id, name: row.name.clone() });
        let before = peer.boot.replace(row.boot);
        self.unsaved = true;
        if before.is_none() || before == Some(row.boot) {
            return;
        }
        let former: Vec<&DomainRow> = rows
            .iter()
            .filter(|other| Some(other.boot) == before)
            .filter(|other| peer.domains.get(&other.index) == Some(&other.epoch))
            .collect();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for other in &former {
            peer.domains.remove(&other.index);
        }
        for other in former {
            self.declare_dead(other, "its virtual machine was reset");
        }
    }

    pub(super) fn reap_stranded(&mut self, id: u16) {
        let found = self.stranded.iter().position(|stranded| stranded.peer.id == id);
        let Some(stranded) = found.map(|index| self.stranded.swap_remove(index)) else { return };
        self.events.push(Event::Gone { id });
        self.reap(id, &stranded.peer.domains, "its virtual machine has ended");
        self.save();
    }

    /// Declares the domains of a guest dead: those that have its address, and those that had.
    pub(super) fn reap(&mut self, id: u16, seen: &BTreeMap<u32, u32>, why: &'static str) {
        let rows = self.client().map(|this_client| this_client.pool().domains());
        // Tables that cannot be read end the next round.
        let Some(Ok(rows)) = rows else { return };
        for row in rows {
            let addressed = row.address == Some(u32::from(id));
            if addressed || seen.get(&row.index) == Some(&row.epoch) {
                self.declare_dead(&row, why);
            }
        }
    }

    fn declare_dead(&mut self, row: &DomainRow, why: &'static str) {
        let Some(this_client) = self.client() else { return };
        let is_over = row.state == DomainState::Dead && row.clients == 0;
        if is_over || is_local(row, this_client) {
            return;
        }
        if this_client.reap_epoch(row.index, row.epoch).is_ok() {
            self.events.push(Event::Dead { name: row.name.clone(), why });
        }
    }
}

/// Whether a domain is of this kernel.
fn is_local(row: &DomainRow, this_client: &Client) -> bool {
    this_client.boot().is_ok_and(|boot| boot == row.boot)
}
