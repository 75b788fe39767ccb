//! The state that a server leaves for its successor, and how the successor uses it.

use rustix::io::Errno;
use vshmem_link::uuid_digits;

use super::Server;
use crate::event::Event;
use crate::peer::Peer;
use crate::record::{Record, RecordedPeer};
use crate::stranded::Stranded;

impl Server {
    /// Takes over from an earlier server: its guests continue, and cannot be notified any more.
    pub(super) fn succeed(&mut self, identity: &str) -> Result<(), Errno> {
        let Some(session) = &self.session else { return Ok(()) };
        let this_client = session.client();
        let rows = this_client.pool().domains()?;
        let record = Record::read_from(&self.record_at).filter(|record| record.pool == identity);
        // Ids that are known somewhere are not given again.
        let used = rows.iter().filter_map(|row| row.address);
        let used = used.filter_map(|address| u16::try_from(address).ok()).max();
        if let Some(record) = &record {
            self.next = record.next;
        }
        if let Some(used) = used {
            self.next = self.next.max(used.wrapping_add(1)).max(1);
        }
        let peers = record.map(|record| record.peers).unwrap_or_default();
        let succeeds = !peers.is_empty() || used.is_some();
        for mut peer in peers.into_iter().take(self.most) {
            let announced = rows.iter().filter(|row| row.address == Some(u32::from(peer.id)));
            peer.domains.extend(announced.map(|row| (row.index, row.epoch)));
            let (id, pid) = (peer.id, peer.pid);
            if let Some(stranded) = Stranded::watch(peer.clone()) {
                self.events.push(Event::Stranded { id, pid });
                self.stranded.push(stranded);
            } else if pid == 0 {
                self.events.push(Event::Stranded { id, pid });
            } else {
                // It has ended while no server ran.
                self.reap(id, &peer.domains, "its virtual machine has ended");
            }
        }
        if succeeds {
            // They still hold the doorbells of the former host.
            self.host = self.fresh_id().unwrap_or(0);
        }
        match &self.session {
            Some(session) => session.client().lose_doorbells(),
            None => Ok(()),
        }
    }

    fn record(&self) -> Option<Record> {
        let uuid = self.client()?.pool().superblock().uuid;
        let gone = self.stranded.iter().map(|stranded| stranded.peer.clone());
        Some(Record {
            pool: uuid_digits(&uuid),
            socket: self.paths.socket.clone(),
            vectors: self.vectors,
            host: self.host,
            next: self.next,
            peers: self.peers.values().map(recorded).chain(gone).collect(),
        })
    }

    pub(super) fn save(&mut self) {
        let Some(record) = self.record() else { return };
        self.unsaved = false;
        if let Err(error) = record.write_to(&self.record_at) {
            self.events.push(Event::Unrecorded { error: error.to_string() });
        }
    }
}

pub(super) fn recorded(peer: &Peer) -> RecordedPeer {
    RecordedPeer {
        id: peer.id,
        pid: if peer.is_process { peer.caller.pid } else { 0 },
        start: peer.start,
        domains: peer.domains.clone(),
    }
}
