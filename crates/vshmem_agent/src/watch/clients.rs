//! The clients of this domain, each with a descriptor that says when its process ends.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use vshmem_ipc::{Client, Errno, LocalClient};
use vshmem_link::Life;
use vshmem_mem::{Instant, StallProofTimeout};
use vshmem_wire::ClientState;

use super::period::ROUND;

/// How long a child may take to come for the slot that its parent, dead by now, has kept for it.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long others may take to recover a dead client before the agent sees to it.
const RECOVERY: Duration = Duration::from_secs(2);

/// One client.
#[derive(Debug)]
struct WatchedClient {
    local_client: LocalClient,
    handle: Option<OwnedFd>,
    /// Its process (while reserved, its parent) is known to be dead, or another process is known to
    /// recover it: how long it is left alone yet. The child that could take it over, or the process
    /// that recovers it, may be stopped together with this agent.
    over: Option<StallProofTimeout>,
}

impl WatchedClient {
    fn of(local_client: LocalClient) -> Self {
        let mut watched_client = Self { local_client, handle: None, over: None };
        watched_client.watch();
        watched_client
    }

    fn watch(&mut self) {
        if self.handle.is_some() || self.over.is_some() {
            return;
        }
        if self.local_client.state == ClientState::Dying {
            self.end();
            return;
        }
        match Life::of(self.local_client.pid, self.local_client.start) {
            Life::Over => self.end(),
            Life::Watched(handle) => self.handle = Some(handle),
            Life::Unwatched => {}
        }
    }

    fn end(&mut self) {
        let span = match self.local_client.state {
            ClientState::Reserved => RESERVATION_TIMEOUT,
            ClientState::Dying => RECOVERY,
            ClientState::Active | ClientState::Free | ClientState::Quarantined => Duration::ZERO,
        };
        self.over = Some(StallProofTimeout::new(Instant::now(), span, ROUND));
    }

    /// Whether it is time to recover it.
    fn is_due(&mut self, now: Instant) -> bool {
        // Its attaches stay until an operator confirms the death of its domain.
        if matches!(self.local_client.state, ClientState::Free | ClientState::Quarantined) {
            return false;
        }
        self.over.as_mut().is_some_and(|timeout| timeout.is_over(now))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Clients(HashMap<u32, WatchedClient>);

impl Clients {
    /// Brings the list up to what the client table says.
    pub fn update(&mut self, this_client: &Client) -> Result<(), Errno> {
        let mut local_clients = this_client.pool().local_clients(this_client.domain())?;
        local_clients.retain(|local_client| local_client.index != this_client.client_slot());
        self.0.retain(|_, watched| local_clients.contains(&watched.local_client));
        for local_client in local_clients {
            self.0
                .entry(local_client.index)
                .or_insert_with(|| WatchedClient::of(local_client))
                .watch();
        }
        Ok(())
    }

    /// Notes ends. A slot may have its next holder by now: that one lives.
    pub fn mark_ended(&mut self, ended: &[LocalClient]) {
        for local_client in ended {
            if let Some(watched) = self.0.get_mut(&local_client.index)
                && watched.local_client == *local_client
            {
                watched.handle = None;
                watched.end();
            }
        }
    }

    /// Recovers what the dead have left behind, where it is time.
    pub fn recover_dead(&mut self, this_client: &Client) -> Result<(), Errno> {
        let now = Instant::now();
        let due: Vec<LocalClient> = self
            .0
            .values_mut()
            .filter_map(|watched| watched.is_due(now).then_some(watched.local_client))
            .collect();
        for local_client in due {
            this_client.reap_local(&local_client)?;
            self.0.remove(&local_client.index);
        }
        Ok(())
    }

    /// Descriptors that become readable when one of them ends.
    pub fn handles(&self) -> impl Iterator<Item = (LocalClient, BorrowedFd<'_>)> {
        self.0
            .values()
            .filter_map(|watched| Some((watched.local_client, watched.handle.as_ref()?.as_fd())))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_holder_of_a_slot_is_not_recovered_for_the_former_ones_end() {
        let me = vshmem_session::this_process();
        let former = LocalClient {
            index: 3,
            id: vshmem_wire::ClientId::new(3, 1),
            domain: 0,
            pid: me.pid,
            start: me.start,
            state: ClientState::Active,
        };
        let next = LocalClient { state: ClientState::Reserved, ..former };
        let mut clients = Clients(HashMap::from([(3, WatchedClient::of(next))]));
        clients.mark_ended(&[former]);
        assert!(clients.0[&3].over.is_none());
        clients.mark_ended(&[next]);
        assert!(clients.0[&3].over.is_some());
    }

    /// The agent was stopped, and with it, it may be, the child that has yet to come for the slot.
    #[test]
    fn a_stop_of_the_agent_takes_no_slot_from_a_child() {
        let me = vshmem_session::this_process();
        let mut watched = WatchedClient::of(LocalClient {
            index: 3,
            id: vshmem_wire::ClientId::new(3, 1),
            domain: 0,
            pid: me.pid,
            start: me.start,
            state: ClientState::Reserved,
        });
        watched.end();
        let mut now = Instant::now().after(100 * RESERVATION_TIMEOUT);
        assert!(!watched.is_due(now), "the stop counts as a round");
        let rounds = (2..).find(|_| {
            now = now.after(ROUND);
            watched.is_due(now)
        });
        assert_eq!(rounds.map(|rounds| rounds * ROUND), Some(RESERVATION_TIMEOUT));
    }
}
