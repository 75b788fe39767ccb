//! Who takes part in a pool: its domains and clients, by name.

use vshmem_ipc::{ClientRow, DomainRow, Pool};
use vshmem_link::Life;
use vshmem_wire::DomainState;

use crate::failure::{Failure, unreadable};
use crate::here::is_here;

/// Who takes part in a pool.
#[derive(Debug)]
pub struct Participants {
    /// Domains, past ones included.
    pub domains: Vec<DomainRow>,
    /// Clients.
    pub clients: Vec<ClientRow>,
}

impl Participants {
    /// Reads the tables.
    pub fn of(pool: &Pool) -> Result<Self, Failure> {
        let name = pool.name();
        Ok(Self {
            domains: pool.domains().map_err(unreadable(&name))?,
            clients: pool.clients().map_err(unreadable(&name))?,
        })
    }

    /// A domain by its slot.
    pub fn domain(&self, index: u32) -> Option<&DomainRow> {
        self.domains.iter().find(|row| row.index == index)
    }

    /// Name of a domain.
    pub fn name(&self, index: u32) -> String {
        self.domain(index).map_or_else(|| format!("#{index}"), |row| row.name.clone())
    }

    /// A process, as `domain:pid`.
    pub fn process(&self, domain: u32, pid: u32) -> String {
        format!("{}:{pid}", self.name(domain))
    }

    /// A client, by its slot, as `domain:pid`.
    pub fn client(&self, slot: u32) -> String {
        match self.clients.iter().find(|row| row.index == slot) {
            Some(row) => self.process(row.domain, row.pid),
            None => format!("client {slot}"),
        }
    }

    /// Whether a client is its domain's agent.
    pub fn is_agent(&self, client: &ClientRow) -> bool {
        self.domain(client.domain).is_some_and(|row| row.agent != 0 && row.agent == client.pid)
    }

    /// Whether a client's process is known to have ended.
    pub fn is_over(&self, client: &ClientRow) -> bool {
        match self.domain(client.domain) {
            Some(row) if is_here(row) => !Life::of(client.pid, client.start).goes_on(),
            Some(row) => row.state != DomainState::Alive,
            None => true,
        }
    }

    /// Clients that use the pool, agents and the dead left out.
    pub fn users(&self) -> Vec<&ClientRow> {
        self.clients.iter().filter(|row| !self.is_agent(row) && !self.is_over(row)).collect()
    }
}
