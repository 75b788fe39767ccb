//! Domains, clients and thread slots.

use std::collections::HashSet;

use vshmem_sync::Fault;
use vshmem_wire::{
    ClientId, ClientSlot, ClientState, DomainSlot, DomainState, Place, Registry, ThreadSlot,
    WaitKind, WaitState, field,
};

use crate::check::checker::Checker;
use crate::check::client_lists::Listed;
use crate::check::client_table::{ClientTable, Owner};
use crate::pool::clients::slot_of;

impl Checker<'_> {
    /// Whether an owner cell carries the id of a client that is not dying.
    pub(super) fn lives(&self, owner: u64) -> Result<bool, Fault> {
        let Some(client) = ClientId::of(owner) else { return Ok(false) };
        let Ok(slot) = slot_of(self.layout, client) else { return Ok(false) };
        let state = self.state(field!(slot, ClientSlot, state))?;
        let taken = self.word(field!(slot, ClientSlot, taken))?;
        Ok(client.slot().is_some_and(|index| ClientId::new(index, taken) == client)
            && state != Some(ClientState::Free)
            && state != Some(ClientState::Dying))
    }

    pub(super) fn client_table(&mut self) -> Result<ClientTable, Fault> {
        let clients = self.clients()?;
        let mut taken = Vec::new();
        for client in 0..self.layout.clients.count as u32 {
            taken.push(self.word(field!(self.layout.clients.row(client)?, ClientSlot, taken))?);
        }
        let mut client_table = ClientTable { clients, taken, waiting: Vec::new() };
        self.free_clients(&client_table)?;
        self.threads(&mut client_table)?;
        Ok(client_table)
    }

    fn clients(&mut self) -> Result<Vec<Option<ClientState>>, Fault> {
        let layout = self.layout;
        let count = layout.clients.count as u32;
        let high = self.get(field!(layout.registry, Registry, clients_high))?;
        if high > count {
            self.wrong(format!("clients are said to reach up to slot {high} of {count}"));
        }
        let parents = self.parents()?;
        let mut states = Vec::new();
        for client in 0..count {
            let slot = layout.clients.row(client)?;
            let state = self.state(field!(slot, ClientSlot, state))?;
            states.push(state);
            if state == Some(ClientState::Free) {
                continue;
            }
            if state.is_none() {
                let number = self.get(field!(slot, ClientSlot, state).cell())?;
                self.wrong(format!("client {client} is in state {number}, which is none"));
                continue;
            }
            if client >= high {
                self.wrong(format!(
                    "client {client} is in use, and clients are said to end at {high}"
                ));
            }
            let pid = self.get(field!(slot, ClientSlot, pid))?;
            let domain = self.get(field!(slot, ClientSlot, domain))?;
            if state == Some(ClientState::Dying) {
                self.unfinished(format!(
                    "client {client} (domain {domain}, pid {pid}) is dead and not reaped"
                ));
                continue;
            }
            self.client_of(client, slot, state, domain, pid)?;
            if state == Some(ClientState::Reserved) && !parents.contains(&(domain, pid)) {
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
            let slot = self.layout.clients.row(client)?;
            if self.state(field!(slot, ClientSlot, state))? == Some(ClientState::Active) {
                let domain = self.get(field!(slot, ClientSlot, domain))?;
                parents.insert((domain, self.get(field!(slot, ClientSlot, pid))?));
            }
        }
        Ok(parents)
    }

    fn client_of(
        &mut self,
        client: u32,
        slot: Place<ClientSlot>,
        state: Option<ClientState>,
        domain: u32,
        pid: u32,
    ) -> Result<(), Fault> {
        let Some(domain_slot) = self.layout.domains.at(domain) else {
            self.wrong(format!("client {client} belongs to domain {domain}, which does not exist"));
            return Ok(());
        };
        let domain_state = self.state(field!(domain_slot, DomainSlot, state))?;
        let epoch = self.get(field!(domain_slot, DomainSlot, epoch))?;
        let joined = self.get(field!(slot, ClientSlot, epoch))?;
        let quarantined = state == Some(ClientState::Quarantined);
        if domain_state == Some(DomainState::Evicted) && joined == epoch {
            if !quarantined {
                self.unfinished(format!(
                    "client {client} (pid {pid}) is not quarantined, and its domain {domain} is evicted"
                ));
            }
        } else if domain_state == Some(DomainState::Left) && joined == epoch {
            // Until the process that carries the leave out has reaped them.
        } else if !domain_state.is_some_and(DomainState::takes_part) || joined != epoch {
            self.unfinished(format!(
                "client {client} (pid {pid}) is not reaped, and its domain {domain} is gone"
            ));
        } else if quarantined {
            self.unfinished(format!(
                "client {client} (pid {pid}) is quarantined, and its domain {domain} is not evicted"
            ));
        }
        Ok(())
    }

    /// The queue of free client slots.
    fn free_clients(&mut self, client_table: &ClientTable) -> Result<(), Fault> {
        let layout = self.layout;
        let high = self.get(field!(layout.registry, Registry, clients_high))?;
        let mut queued = vec![false; client_table.clients.len()];
        let mut next = self.get(field!(layout.registry, Registry, free_clients))?;
        let mut last = 0;
        while let Some(client) = next.checked_sub(1) {
            let Some(seen) = queued.get_mut(client as usize) else {
                self.wrong(format!("the free client slots lead to {client}, which does not exist"));
                break;
            };
            if std::mem::replace(seen, true) {
                self.wrong(format!("client slot {client} is among the free ones twice"));
                break;
            }
            if client_table.is_in_use(client) {
                self.wrong(format!("client {client} is in use, and among the free slots"));
            }
            last = next;
            next = self.get(field!(layout.clients.row(client)?, ClientSlot, next))?;
        }
        if self.get(field!(layout.registry, Registry, free_clients_last))? != last {
            self.wrong("the tail of the free client slots is wrong".to_owned());
        }
        for (client, queued) in queued.iter().enumerate().take(high as usize) {
            if !queued && !client_table.is_in_use(client as u32) {
                self.unfinished(format!(
                    "client slot {client} is free, and not among the free ones"
                ));
            }
        }
        Ok(())
    }

    fn threads(&mut self, client_table: &mut ClientTable) -> Result<(), Fault> {
        let listed = self.listed(Listed::ThreadSlots, client_table)?;
        for (thread, listed) in (0..).zip(listed) {
            let at = self.layout.threads.row(thread)?;
            let owner = self.word(field!(at, ThreadSlot, owner))?;
            let wait = self.state(field!(at, ThreadSlot, wait))?;
            if wait.is_none() {
                let number = self.get(field!(at, ThreadSlot, wait).cell())?;
                self.wrong(format!(
                    "thread slot {thread} is in wait state {number}, which is none"
                ));
                continue;
            }
            let waits = wait == Some(WaitState::Waiting);
            if waits {
                client_table.waiting.push(thread);
                let kind = self.state(field!(at, ThreadSlot, kind))?;
                if kind.is_none_or(|kind| kind == WaitKind::None) {
                    let number = self.get(field!(at, ThreadSlot, kind).cell())?;
                    self.wrong(format!(
                        "thread slot {thread} waits for {number}, which is nothing"
                    ));
                }
            }
            match client_table.owner(owner) {
                _ if owner == 0 => {
                    if wait != Some(WaitState::Idle) {
                        self.wrong(format!("thread slot {thread} waits, and has no owner"));
                    }
                }
                Owner::Joining => self.unfinished(format!(
                    "thread slot {thread} is held by a process that was joining"
                )),
                Owner::NoClient => self.wrong(format!(
                    "thread slot {thread} is held by {owner:#x}, which is not the id of a client"
                )),
                Owner::Ended if wait != Some(WaitState::Idle) => {
                    self.wrong(format!("thread slot {thread} waits, and its client has ended"))
                }
                Owner::Client if waits && !listed => self
                    .wrong(format!("thread slot {thread} waits, and its client does not list it")),
                Owner::Ended | Owner::Client => {}
            }
        }
        Ok(())
    }
}
