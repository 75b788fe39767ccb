//! The client table: slots, client ids, and who is in them.

use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, Txn, claim_word, load_state, load_value, load_word};
use vshmem_wire::{
    ClientId, ClientListHead, ClientSlot, ClientState, Layout, Place, RawCell, Registry, field,
};

use crate::pool::open::Pool;

/// Whether the process of a client id may still act: its domain is a member, or was evicted and is
/// not known to be dead.
pub(crate) fn may_act(pool: &Pool, client: ClientId) -> bool {
    let look = || -> Result<bool, Fault> {
        let slot = slot_of(pool.layout(), client)?;
        let state = load_state(pool.map(), field!(slot, ClientSlot, state))?;
        let there = state == Some(ClientState::Active) || state == Some(ClientState::Quarantined);
        Ok(there && pool.still_holds(slot, client)?)
    };
    look().unwrap_or(false)
}

/// A process, distinguished from others that have had its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Pid inside its domain.
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 when unknown.
    pub start: u64,
    /// User id, for display.
    pub uid: u32,
}

/// Whether the slot still holds the client that `client` names.
pub(crate) fn is_in(
    txn: &mut Txn<'_>,
    slot: Place<ClientSlot>,
    client: ClientId,
) -> Result<bool, Fault> {
    let taken = txn.get_word(field!(slot, ClientSlot, taken))?;
    Ok(client.slot().is_some_and(|index| ClientId::new(index, taken) == client))
}

/// Whether two start times are those of one process. Of what is not known nothing can be said. In
/// time namespaces that are shifted by a part of a tick, one process may see two that are one
/// apart.
pub(crate) fn is_same_start(one: u64, other: u64) -> bool {
    one != 0 && other != 0 && one.abs_diff(other) <= 1
}

pub(crate) fn start_in(txn: &mut Txn<'_>, slot: Place<ClientSlot>) -> Result<u64, Fault> {
    let low = txn.get(field!(slot, ClientSlot, start_low))?;
    let high = txn.get(field!(slot, ClientSlot, start_high))?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// A client's slot, also when it has another client by now.
pub(crate) fn slot_of(layout: &Layout, client: ClientId) -> Result<Place<ClientSlot>, Fault> {
    Ok(layout.clients.row(client.slot().unwrap_or(u32::MAX))?)
}

/// Takes the client slot that has been free for longest, and returns the id of the client that is
/// in it now.
pub(crate) fn take_client(txn: &mut Txn<'_>, layout: &Layout) -> Result<Option<ClientId>, Fault> {
    let (first_at, last_at) = (
        field!(layout.registry, Registry, free_clients),
        field!(layout.registry, Registry, free_clients_last),
    );
    let high_at = field!(layout.registry, Registry, clients_high);
    let index = match txn.get(first_at)?.checked_sub(1) {
        Some(index) => {
            let next = txn.get(field!(layout.clients.row(index)?, ClientSlot, next))?;
            txn.set(first_at, next)?;
            if next == 0 {
                txn.set(last_at, 0)?;
            }
            index
        }
        None => {
            let high = txn.get(high_at)?;
            if u64::from(high) >= layout.clients.count {
                return Ok(None);
            }
            txn.set(high_at, high + 1)?;
            high
        }
    };
    let slot = layout.clients.row(index)?;
    if txn.state(field!(slot, ClientSlot, state))? != Some(ClientState::Free) {
        return Err(Fault::corrupt(slot, "a client in the queue of free slots"));
    }
    let taken_at = field!(slot, ClientSlot, taken);
    let taken = txn.get_word(taken_at)?.wrapping_add(1);
    let client = ClientId::new(index, taken);
    txn.set_word(taken_at, taken)?;
    for list in [field!(slot, ClientSlot, threads), field!(slot, ClientSlot, undos)] {
        txn.set_word(list, ClientListHead::empty(client).pack())?;
    }
    Ok(Some(client))
}

/// Whether a client slot is in the queue of free slots.
pub(crate) fn is_queued(txn: &mut Txn<'_>, layout: &Layout, index: u32) -> Result<bool, Fault> {
    let mut next = txn.get(field!(layout.registry, Registry, free_clients))?;
    for _ in 0..=layout.clients.count {
        let Some(queued) = next.checked_sub(1) else { return Ok(false) };
        if queued == index {
            return Ok(true);
        }
        next = txn.get(field!(layout.clients.row(queued)?, ClientSlot, next))?;
    }
    Err(Fault::corrupt(layout.registry, "a queue of free client slots without an end"))
}

/// Puts a client slot that has become free at the end of the queue of free slots.
pub(crate) fn free_client(txn: &mut Txn<'_>, layout: &Layout, index: u32) -> Result<(), Fault> {
    let (first_at, last_at) = (
        field!(layout.registry, Registry, free_clients),
        field!(layout.registry, Registry, free_clients_last),
    );
    let slot = layout.clients.row(index)?;
    txn.set_state(field!(slot, ClientSlot, state), ClientState::Free)?;
    txn.update(field!(slot, ClientSlot, next), 0)?;
    match txn.get(last_at)?.checked_sub(1) {
        Some(last) => txn.set(field!(layout.clients.row(last)?, ClientSlot, next), index + 1)?,
        None => txn.set(first_at, index + 1)?,
    }
    txn.set(last_at, index + 1)
}

pub(crate) fn write_client(
    txn: &mut Txn<'_>,
    slot: Place<ClientSlot>,
    state: ClientState,
    domain: u32,
    epoch: u32,
    process: Process,
) -> Result<(), Fault> {
    txn.update(field!(slot, ClientSlot, domain), domain)?;
    txn.update(field!(slot, ClientSlot, epoch), epoch)?;
    txn.update(field!(slot, ClientSlot, pid), process.pid)?;
    txn.update(field!(slot, ClientSlot, start_low), process.start as u32)?;
    txn.update(field!(slot, ClientSlot, start_high), (process.start >> 32) as u32)?;
    txn.update(field!(slot, ClientSlot, uid), process.uid)?;
    txn.update(field!(slot, ClientSlot, leaving), 0)?;
    txn.update(field!(slot, ClientSlot, joined), seconds_now())?;
    txn.set_state(field!(slot, ClientSlot, state), state)
}

impl Pool {
    /// The client that is in a slot now.
    pub(crate) fn client_id_in(&self, index: u32) -> Result<ClientId, Fault> {
        let slot = self.layout().clients.row(index)?;
        Ok(ClientId::new(index, load_word(self.map(), field!(slot, ClientSlot, taken))?))
    }

    /// Start time of the process in a client's slot.
    pub(crate) fn start_of(&self, slot: Place<ClientSlot>) -> Result<u64, Fault> {
        let low = load_value(self.map(), field!(slot, ClientSlot, start_low))?;
        let high = load_value(self.map(), field!(slot, ClientSlot, start_high))?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }
}

impl Pool {
    /// Whether a client's slot still is that client's.
    pub(crate) fn still_holds(
        &self,
        slot: Place<ClientSlot>,
        client: ClientId,
    ) -> Result<bool, Fault> {
        let taken = load_word(self.map(), field!(slot, ClientSlot, taken))?;
        Ok(client.slot().is_some_and(|index| ClientId::new(index, taken) == client))
    }

    /// Whether the word of an owner cell is the id of a client that has ended and is reaped. A
    /// process that was only just joining is left to the agent of its domain.
    pub(crate) fn is_of_dead(&self, owner: u64) -> Result<bool, Fault> {
        let Some(client) = ClientId::of(owner).filter(|client| !client.is_joining()) else {
            return Ok(false);
        };
        let Ok(slot) = slot_of(self.layout(), client) else { return Ok(false) };
        let taken = load_word(self.map(), field!(slot, ClientSlot, taken))?;
        let current = ClientId::new(client.slot().unwrap_or(0), taken);
        if current == client {
            // Until its slot is free, the client is being reaped by another thread.
            let state = load_state(self.map(), field!(slot, ClientSlot, state))?;
            return Ok(state == Some(ClientState::Free));
        }
        // No client has had a higher count than the present one: a hostile member has written it.
        Ok(client.count() < current.count())
    }

    /// Frees a cell that a dead client owns; says whether it did.
    pub(crate) fn free_if_dead(&self, owner_at: Place<RawCell>) -> Result<bool, Fault> {
        let owner = load_word(self.map(), owner_at)?;
        Ok(self.is_of_dead(owner)? && claim_word(self.map(), owner_at, owner, 0)?)
    }
}
