//! Who takes part in a pool: its domains and clients, by name.

use vshmem_ipc::{ClientRow, DomainRow, Pool};
use vshmem_link::Life;

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
        let mut domains = pool.domains().map_err(unreadable(&name))?;
        tell_apart(&mut domains);
        Ok(Self { domains, clients: pool.clients().map_err(unreadable(&name))? })
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
            Some(row) => !row.state.takes_part(),
            None => true,
        }
    }

    /// Clients that use the pool, agents and the dead left out.
    pub fn users(&self) -> Vec<&ClientRow> {
        self.clients.iter().filter(|row| !self.is_agent(row) && !self.is_over(row)).collect()
    }
}

/// Guests of one image have one name: those that are alive get their number with it, which commands
/// take as well.
fn tell_apart(domains: &mut [DomainRow]) {
    let living = |row: &&DomainRow| row.state.takes_part();
    let names: Vec<String> = domains.iter().filter(living).map(|row| row.name.clone()).collect();
    for row in domains.iter_mut().filter(|row| living(&&**row)) {
        if names.iter().filter(|name| **name == row.name).count() > 1 {
            row.name = format!("{}#{}", row.name, row.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use vshmem_ipc::DomainSet;
    use vshmem_wire::DomainState;

    use super::*;

    fn domain(index: u32, name: &str, state: DomainState) -> DomainRow {
        DomainRow {
            index,
            name: name.to_owned(),
            state,
            epoch: 1,
            renewed: 0,
            lease: 0,
            agent: 0,
            clients: 0,
            boot: [index; 4],
            pid_namespace: 0,
            address: None,
            listens: false,
            heard: DomainSet::default(),
            rates: [0; 4],
        }
    }

    #[test]
    fn living_guests_of_one_name_are_told_apart_and_a_reboot_is_not() {
        let (alive, dead) = (DomainState::Alive, DomainState::Dead);
        let mut domains = [
            domain(0, "host", alive),
            domain(1, "image", alive),
            domain(2, "image", alive),
            domain(3, "host", dead),
        ];
        tell_apart(&mut domains);
        let names = domains.each_ref().map(|row| row.name.as_str());
        assert_eq!(names, ["host", "image#1", "image#2", "host"]);
    }
}
