//! The clients of a pool, what they have attached and where they wait.

use vshmem_sync::{Fault, load_state, load_value, load_word};
use vshmem_wire::{
    ATTACHED_QUEUE, AttachSlot, ClientId, ClientSlot, ClientState, Place, Registry, ThreadSlot,
    WaitKind, WaitState, field,
};

use crate::error::Failure;
use crate::listing::address;
use crate::listing::rows::{ClientRow, LocalClient, ObjectDetails, WaiterRow};
use crate::pool::clients::Process;
use crate::pool::id::Kind;
use crate::pool::open::Pool;
use crate::pool::wide_pid::WidePid;

pub(crate) fn clients(pool: &Pool) -> Result<Vec<ClientRow>, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let mut rows = Vec::new();
    for index in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(index)?;
        // The client id first: if the slot gets a new owner now, the id no longer matches.
        let id = pool.client_id_in(index)?;
        let Some(state) = occupied(load_state(map, field!(slot, ClientSlot, state))?) else {
            continue;
        };
        rows.push(ClientRow {
            index,
            id,
            domain: load_value(map, field!(slot, ClientSlot, domain))?,
            pid: load_value(map, field!(slot, ClientSlot, pid))?,
            start: pool.start_of(slot)?,
            uid: load_value(map, field!(slot, ClientSlot, uid))?,
            state,
            joined: load_value(map, field!(slot, ClientSlot, joined))?,
            attaches: attaches_of(pool, slot)?,
            sleeping: 0,
        });
    }
    for waiter in waiters(pool)? {
        if let Some(row) = rows.iter_mut().find(|row| row.index == waiter.client) {
            row.sleeping += 1;
        }
    }
    Ok(rows)
}

pub(crate) fn attaches_of(pool: &Pool, client: Place<ClientSlot>) -> Result<u32, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let mut next = load_value(map, field!(client, ClientSlot, attaches))?;
    let mut total = 0u32;
    // A client has one record of a segment, and of a queue, at most.
    for _ in 0..layout.attaches.count.min(layout.shm.count + layout.msg.count) {
        let Some(record) = next.checked_sub(1) else {
            break;
        };
        let at = layout.attaches.row(record)?;
        total = total.saturating_add(load_value(map, field!(at, AttachSlot, count))?);
        next = load_value(map, field!(at, AttachSlot, next))?;
    }
    Ok(total)
}

/// Numbers of the files that clients of a user have their wait words in, as the pool has them.
pub(crate) fn wait_files_of(pool: &Pool, uid: u32) -> Result<Vec<u32>, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let look = || -> Result<Vec<u32>, Fault> {
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut numbers = Vec::new();
        for index in 0..high.min(layout.clients.count as u32) {
            let slot = layout.clients.row(index)?;
            let number = load_value(map, field!(slot, ClientSlot, words_nonce))?;
            let owner = load_value(map, field!(slot, ClientSlot, words_uid))?;
            if number != 0 && owner == uid.wrapping_add(1) && !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    };
    look().map_err(Failure::from)
}

pub(crate) fn waiters(pool: &Pool) -> Result<Vec<WaiterRow>, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let mut rows = Vec::new();
    for thread in 0..layout.threads.count as u32 {
        let at = layout.threads.row(thread)?;
        let owner = load_word(map, field!(at, ThreadSlot, owner))?;
        let wait = load_state(map, field!(at, ThreadSlot, wait))?;
        let Some(client) = ClientId::of(owner).and_then(ClientId::slot) else {
            continue;
        };
        if wait != Some(WaitState::Waiting) {
            continue;
        }
        let kind = load_state(map, field!(at, ThreadSlot, kind))?;
        let index = load_value(map, field!(at, ThreadSlot, object))?;
        let (kind, object) = if kind == Some(WaitKind::Semaphore) {
            (Kind::Semaphore, index)
        } else if kind == Some(WaitKind::Address) {
            let address = address::address_of(pool, at)?;
            (Kind::Segment, address.map_or(u32::MAX, |address| address.segment))
        } else {
            (Kind::Queue, index)
        };
        rows.push(WaiterRow { client, kind, object });
    }
    Ok(rows)
}

/// Clients that have a segment attached, with how often.
pub(crate) fn attached_to(pool: &Pool, segment: u32) -> Result<Vec<(u32, u32)>, Failure> {
    holders_of(pool, segment + 1).map_err(Failure::from)
}

/// Clients with an attach record whose word says `held`, with how often.
fn holders_of(pool: &Pool, held: u32) -> Result<Vec<(u32, u32)>, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let mut rows = Vec::new();
    for record in 0..layout.attaches.count as u32 {
        let at = layout.attaches.row(record)?;
        if load_value(map, field!(at, AttachSlot, segment))? == held {
            let client = load_word(map, field!(at, AttachSlot, client))?;
            let client = ClientId::of(client).and_then(ClientId::slot);
            let count = load_value(map, field!(at, AttachSlot, count))?;
            rows.push((client.unwrap_or(u32::MAX), count));
        }
    }
    Ok(rows)
}

impl ObjectDetails {
    /// Slots of the clients that have the object attached or open; of a semaphore set none.
    ///
    /// # Errors
    /// When the pool is corrupt.
    pub fn holders(&self, pool: &Pool) -> Result<Vec<u32>, Fault> {
        let held = match self.kind {
            Kind::Segment => self.index + 1,
            Kind::Queue => ATTACHED_QUEUE | (self.index + 1),
            Kind::Semaphore => return Ok(Vec::new()),
        };
        Ok(holders_of(pool, held)?.into_iter().map(|(client, _)| client).collect())
    }
}

/// The clients of one domain, without what is costly to find out.
pub(crate) fn local_clients(pool: &Pool, domain: u32) -> Result<Vec<LocalClient>, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let look = || -> Result<Vec<LocalClient>, Fault> {
        let clients_high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut found = Vec::new();
        for index in 0..clients_high.min(layout.clients.count as u32) {
            let slot = layout.clients.row(index)?;
            // The client id first: if the slot gets a new owner now, the id no longer matches.
            let id = pool.client_id_in(index)?;
            let Some(state) = occupied(load_state(map, field!(slot, ClientSlot, state))?) else {
                continue;
            };
            if load_value(map, field!(slot, ClientSlot, domain))? != domain {
                continue;
            }
            found.push(LocalClient {
                index,
                id,
                domain,
                pid: load_value(map, field!(slot, ClientSlot, pid))?,
                start: pool.start_of(slot)?,
                state,
            });
        }
        Ok(found)
    };
    look().map_err(Failure::from)
}

/// The process that a number names, if it is a client that has not ended.
pub(crate) fn process_of(pool: &Pool, number: WidePid) -> Result<Option<Process>, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let look = || -> Result<Option<Process>, Fault> {
        let clients_high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        for index in 0..clients_high.min(layout.clients.count as u32) {
            let slot = layout.clients.row(index)?;
            let id = pool.client_id_in(index)?;
            if load_value(map, field!(slot, ClientSlot, pid))? != number.pid
                || load_value(map, field!(slot, ClientSlot, domain))? != number.domain
                || load_state(map, field!(slot, ClientSlot, state))? != Some(ClientState::Active)
            {
                continue;
            }
            let (start, uid) =
                (pool.start_of(slot)?, load_value(map, field!(slot, ClientSlot, uid))?);
            // Otherwise these are words of two processes.
            if pool.client_id_in(index)? == id {
                return Ok(Some(Process { pid: number.pid, start, uid }));
            }
        }
        Ok(None)
    };
    look().map_err(Failure::from)
}

/// The state of a slot that holds a client.
fn occupied(state: Option<ClientState>) -> Option<ClientState> {
    state.filter(|state| *state != ClientState::Free)
}
