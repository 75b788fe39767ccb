//! The domains of a pool.

use vshmem_sync::{Fault, load_state, load_value, load_word};
use vshmem_wire::{AGENT_STARTER, DOORBELL_LOST, DomainSlot, DomainState, field};

use crate::error::Failure;
use crate::listing::client_rows;
use crate::listing::rows::{DomainKey, DomainRow};
use crate::pool::domains;
use crate::pool::open::Pool;

/// All member domains, past ones included.
pub(crate) fn domains(pool: &Pool) -> Result<Vec<DomainRow>, Failure> {
    let map = pool.map();
    let look = || -> Result<Vec<DomainRow>, Fault> {
        let clients = client_rows::clients(pool)?;
        let mut rows = Vec::new();
        for index in 0..pool.layout().domains.count as u32 {
            let slot = pool.layout().domains.row(index)?;
            let state = match load_state(map, field!(slot, DomainSlot, state))? {
                None | Some(DomainState::Free) => continue,
                Some(state) => state,
            };
            rows.push(DomainRow {
                index,
                name: domains::name_of(pool, index)?,
                state,
                epoch: load_value(map, field!(slot, DomainSlot, epoch))?,
                renewed: load_value(map, field!(slot, DomainSlot, renewed))?,
                lease: load_value(map, field!(slot, DomainSlot, lease))?,
                agent: match load_value(map, field!(slot, DomainSlot, agent))? {
                    starter if starter & AGENT_STARTER != 0 => 0,
                    agent => agent,
                },
                clients: clients.iter().filter(|row| row.domain == index).count() as u32,
                boot: domains::boot_of(pool, index)?,
                pid_namespace: load_value(map, field!(slot, DomainSlot, pid_namespace))?,
                address: match load_value(map, field!(slot, DomainSlot, address))? {
                    DOORBELL_LOST => None,
                    address => address.checked_sub(1),
                },
                listens: load_word(map, field!(slot, DomainSlot, notify))? != 0,
                heard: crate::wait::datagrams::heard_by(pool, index)?,
                rates: domains::rates_of(pool, index)?,
            });
        }
        Ok(rows)
    };
    look().map_err(Failure::from)
}

/// The domains that have not been declared dead; without looking at any client.
pub(crate) fn domain_keys(pool: &Pool) -> Result<Vec<DomainKey>, Failure> {
    let map = pool.map();
    let look = || -> Result<Vec<DomainKey>, Fault> {
        let mut keys = Vec::new();
        for index in 0..pool.layout().domains.count as u32 {
            let slot = pool.layout().domains.row(index)?;
            // The epoch first: if the slot gets a new owner now, the key no longer matches.
            let epoch = pool.epoch_of(index)?;
            let state = load_state(map, field!(slot, DomainSlot, state))?;
            if state.is_some_and(DomainState::may_be_there) {
                keys.push(DomainKey {
                    index,
                    epoch,
                    boot: domains::boot_of(pool, index)?,
                    pid_namespace: load_value(map, field!(slot, DomainSlot, pid_namespace))?,
                    born: load_word(map, field!(slot, DomainSlot, born))?,
                });
            }
        }
        Ok(keys)
    };
    look().map_err(Failure::from)
}

/// Slots and boot epochs of the domains that have been declared dead.
pub(crate) fn dead_domains(pool: &Pool) -> Result<Vec<(u32, u32)>, Failure> {
    let look = || -> Result<Vec<(u32, u32)>, Fault> {
        let mut dead = Vec::new();
        for index in 0..pool.layout().domains.count as u32 {
            // The epoch first, as above.
            let epoch = pool.epoch_of(index)?;
            let slot = pool.layout().domains.row(index)?;
            if load_state(pool.map(), field!(slot, DomainSlot, state))? == Some(DomainState::Dead) {
                dead.push((index, epoch));
            }
        }
        Ok(dead)
    };
    look().map_err(Failure::from)
}

/// Boot epoch of the domain in a slot; `None` when none takes part there: it is free, dead,
/// evicted, or has left.
pub(crate) fn domain_epoch(pool: &Pool, index: u32) -> Result<Option<u32>, Failure> {
    let look = || -> Result<Option<u32>, Fault> {
        let slot = pool.layout().domains.row(index)?;
        let state = load_state(pool.map(), field!(slot, DomainSlot, state))?;
        let epoch = load_value(pool.map(), field!(slot, DomainSlot, epoch))?;
        Ok(state.is_some_and(DomainState::takes_part).then_some(epoch))
    };
    look().map_err(Failure::from)
}
