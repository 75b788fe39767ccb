//! Domains, clients and thread slots.

use std::collections::HashSet;

use vshmem_sync::{Fault, field};
use vshmem_wire::{
    ClientSlot, ClientState, DomainSlot, DomainState, Registry, ThreadSlot, WaitKind, WaitState,
};

use super::Look;
use crate::member::{self, client_at};
use crate::wait::thread_at;

/// How every client slot stands.
pub(super) struct Parties {
    /// A [`ClientState`] per slot.
    pub clients: Vec<u32>,
    /// Slots of threads that wait.
    pub waiting: Vec<u32>,
}

impl Parties {
    /// Whether a client slot is somebody's, alive or not.
    pub fn known(&self, client: u32) -> bool {
        self.clients
            .get(member::index_of(client) as usize)
            .is_some_and(|state| *state != ClientState::Free as u32)
    }
}

impl Look<'_> {
    /// Whether the owner of a thread slot (client plus one) is a client that is not dying.
    pub(super) fn lives(&self, owner: u32) -> Result<bool, Fault> {
        let Some(client) = owner.checked_sub(1) else {
            return Ok(false);
        };
        let Ok(slot) = client_at(self.layout, client) else {
            return Ok(false);
        };
        let state = self.get(field!(slot, ClientSlot, state))?;
        Ok(state != ClientState::Free as u32 && state != ClientState::Dying as u32)
    }

    pub(super) fn parties(&mut self) -> Result<Parties, Fault> {
        let clients = self.clients()?;
        let mut parties = Parties { clients, waiting: Vec::new() };
        self.threads(&mut parties)?;
        Ok(parties)
    }

    fn clients(&mut self) -> Result<Vec<u32>, Fault> {
        let layout = self.layout;
        let count = layout.clients.count as u32;
        let high = self.get(field!(layout.registry, Registry, clients_high))?;
        if high > count {
            self.wrong(format!("clients are said to reach up to slot {high} of {count}"));
        }
        let parents = self.parents()?;
        let mut states = Vec::new();
        for client in 0..count {
            let slot = client_at(layout, client)?;
            let state = self.get(field!(slot, ClientSlot, state))?;
            states.push(state);
            if state == ClientState::Free as u32 {
                continue;
            }
            if state > ClientState::Quarantined as u32 {
                self.wrong(format!("client {client} is in state {state}, which is none"));
                continue;
            }
            if client >= high {
                self.wrong(format!(
                    "client {client} is in use, and clients are said to end at {high}"
                ));
            }
            let pid = self.get(field!(slot, ClientSlot, pid))?;
            let domain = self.get(field!(slot, ClientSlot, domain))?;
            if state == ClientState::Dying as u32 {
                self.unfinished(format!(
                    "client {client} (domain {domain}, pid {pid}) is dead and not buried"
                ));
                continue;
            }
            self.client_of(client, slot, state, domain, pid)?;
            if state == ClientState::Reserved as u32 && !parents.contains(&(domain, pid)) {
                self.unfinished(format!(
                    "client {client} is kept for a child of pid {pid} in domain {domain}, which is no client"
                ));
            }
        }
        Ok(states)
    }

    /// Domain and pid of every process that is a client.
    fn parents(&self) -> Result<HashSet<(u32, u32)>, Fault> {
        let mut parents = HashSet::new();
        for client in 0..self.layout.clients.count as u32 {
            let slot = client_at(self.layout, client)?;
            if self.get(field!(slot, ClientSlot, state))? == ClientState::Active as u32 {
                let domain = self.get(field!(slot, ClientSlot, domain))?;
                parents.insert((domain, self.get(field!(slot, ClientSlot, pid))?));
            }
        }
        Ok(parents)
    }

    fn client_of(
        &mut self,
        client: u32,
        slot: u64,
        state: u32,
        domain: u32,
        pid: u32,
    ) -> Result<(), Fault> {
        let Some(home) = self.layout.domains.at(domain) else {
            self.wrong(format!("client {client} belongs to domain {domain}, which does not exist"));
            return Ok(());
        };
        let standing = self.get(field!(home, DomainSlot, state))?;
        let epoch = self.get(field!(home, DomainSlot, epoch))?;
        let joined = self.get(field!(slot, ClientSlot, epoch))?;
        let quarantined = state == ClientState::Quarantined as u32;
        if standing == DomainState::Evicted as u32 && joined == epoch {
            if !quarantined {
                self.unfinished(format!(
                    "client {client} (pid {pid}) is not quarantined, and its domain {domain} is evicted"
                ));
            }
        } else if standing != DomainState::Alive as u32 || joined != epoch {
            self.unfinished(format!(
                "client {client} (pid {pid}) is not buried, and its domain {domain} is gone"
            ));
        } else if quarantined {
            self.unfinished(format!(
                "client {client} (pid {pid}) is quarantined, and its domain {domain} is not evicted"
            ));
        }
        Ok(())
    }

    fn threads(&mut self, parties: &mut Parties) -> Result<(), Fault> {
        for thread in 0..self.layout.threads.count as u32 {
            let at = thread_at(self.layout, thread)?;
            let owner = self.get(field!(at, ThreadSlot, owner))?;
            let wait = self.get(field!(at, ThreadSlot, wait))?;
            if wait > WaitState::Retry as u32 {
                self.wrong(format!("thread slot {thread} is in wait state {wait}, which is none"));
                continue;
            }
            if wait == WaitState::Waiting as u32 {
                parties.waiting.push(thread);
                let kind = self.get(field!(at, ThreadSlot, kind))?;
                if kind == WaitKind::None as u32 || kind > WaitKind::Send as u32 {
                    self.wrong(format!("thread slot {thread} waits for {kind}, which is nothing"));
                }
            }
            match owner.checked_sub(1) {
                None if wait != WaitState::Idle as u32 => {
                    self.wrong(format!("thread slot {thread} waits, and is nobody's"));
                }
                None => {}
                Some(client) if member::is_stranger(client) => self.unfinished(format!(
                    "thread slot {thread} is held by a process that was joining"
                )),
                Some(client) if !parties.known(client) => self.wrong(format!(
                    "thread slot {thread} is held by client {client}, which is nobody"
                )),
                Some(_) => {}
            }
        }
        Ok(())
    }
}
