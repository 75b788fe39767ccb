//! Which clients a pool has, and whose client id a word is.

use vshmem_wire::{ClientId, ClientState};

/// The state of every client slot.
pub(super) struct ClientTable {
    /// The state of each slot, as a [`ClientState`].
    pub clients: Vec<Option<ClientState>>,
    /// How often each has been taken.
    pub taken: Vec<u64>,
    /// Slots of threads that wait.
    pub waiting: Vec<u32>,
}

/// Whose client id a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The id of a client that has not been reaped.
    Client,
    /// The id of a process that is joining.
    Joining,
    /// The id of a client that has ended. What carries it may be released by any client.
    Ended,
    /// No client has had it.
    NoClient,
}

impl ClientTable {
    /// Whose client id an owner cell carries.
    pub fn owner(&self, word: u64) -> Owner {
        let Some(client) = ClientId::of(word) else { return Owner::NoClient };
        let Some(slot) = client.slot() else { return Owner::Joining };
        let (Some(state), Some(taken)) =
            (self.clients.get(slot as usize), self.taken.get(slot as usize))
        else {
            return Owner::NoClient;
        };
        let current = ClientId::new(slot, *taken);
        match client.count().cmp(&current.count()) {
            std::cmp::Ordering::Less => Owner::Ended,
            std::cmp::Ordering::Equal if *state == Some(ClientState::Free) => Owner::Ended,
            std::cmp::Ordering::Equal => Owner::Client,
            std::cmp::Ordering::Greater => Owner::NoClient,
        }
    }

    /// The client that is in a slot now.
    pub fn id(&self, slot: u32) -> Option<ClientId> {
        self.taken.get(slot as usize).map(|taken| ClientId::new(slot, *taken))
    }

    /// Whether a client slot holds a client, alive or not.
    pub fn is_in_use(&self, slot: u32) -> bool {
        self.clients.get(slot as usize).is_some_and(|state| *state != Some(ClientState::Free))
    }
}
