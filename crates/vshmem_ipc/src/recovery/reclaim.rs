//! Taking back what still carries the name of a client that has ended.
//!
//! A burial takes back what a client has listed: what others may wait for. What it had claimed and not yet listed, and its
//! chunks of the heap, hold nobody up. A name never comes back, so whoever meets such a thing may take it: who finds no other
//! free one, and the agents, which look at a part of the tables each time.

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, Ordering};
use vshmem_sync::{Desk, Fault, claim_word, field, load_value, load_word};
use vshmem_wire::{ClientName, ClientSlot, ClientState, ThreadSlot};

use crate::context::{Member, slot_of};
use crate::error::settle;
use crate::memory::heap;
use crate::pool::open::Pool;
use crate::sem::undo;
use crate::wait::queue::thread_at;

/// Rows of the tables of threads and undo records that are looked at in one round, and units of the heap.
const ROWS: u32 = 256;
const SLABS: u32 = 8;

/// Where the next round goes on.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    threads: AtomicU32,
    undos: AtomicU32,
    slabs: AtomicU32,
}

impl Pool {
    /// Whether a client's slot still is that client's.
    pub(crate) fn still_holds(&self, slot: u64, client: ClientName) -> Result<bool, Fault> {
        let taken = load_word(self.map(), field!(slot, ClientSlot, taken))?;
        Ok(client.slot().is_some_and(|index| ClientName::new(index, taken) == client))
    }

    /// Whether the word of an owner cell is the name of a client that has ended and is buried. One who was only just
    /// joining is for the agent of its domain to judge.
    pub(crate) fn is_of_dead(&self, owner: u64) -> Result<bool, Fault> {
        let Some(client) = ClientName::of(owner).filter(|client| !client.is_joining()) else {
            return Ok(false);
        };
        let Ok(slot) = slot_of(self.layout(), client) else { return Ok(false) };
        let taken = load_word(self.map(), field!(slot, ClientSlot, taken))?;
        let current = ClientName::new(client.slot().unwrap_or(0), taken);
        if current == client {
            // Until it is free somebody buries it.
            let state = load_value(self.map(), field!(slot, ClientSlot, state))?;
            return Ok(state == ClientState::Free as u32);
        }
        // A count that is yet to come is a peer's invention.
        Ok(client.count() < current.count())
    }

    /// Frees a cell that a dead client owns; says whether it did.
    fn free_if_dead(&self, owner_at: u64) -> Result<bool, Fault> {
        let owner = load_word(self.map(), owner_at)?;
        Ok(self.is_of_dead(owner)? && claim_word(self.map(), owner_at, owner, 0)?)
    }

    /// Frees the thread slots that dead clients had claimed and not listed. Says whether there were any.
    pub(crate) fn free_dead_threads(&self) -> Result<bool, Fault> {
        let mut freed = false;
        for thread in 0..self.layout().threads.count as u32 {
            let at = thread_at(self.layout(), thread)?;
            freed |= self.free_if_dead(field!(at, ThreadSlot, owner))?;
        }
        Ok(freed)
    }

    /// The same of undo records.
    pub(crate) fn free_dead_undos(&self) -> Result<bool, Fault> {
        let mut freed = false;
        for record in 0..self.layout().undos.count as u32 {
            freed |= self.free_dead_undo(record)?;
        }
        Ok(freed)
    }

    fn free_dead_undo(&self, record: u32) -> Result<bool, Fault> {
        let owner_at = undo::held_record(self.layout(), record)?.owner;
        let owner = load_word(self.map(), owner_at)?;
        let Some(dead) = ClientName::of(owner) else { return Ok(false) };
        if !self.is_of_dead(owner)? {
            return Ok(false);
        }
        // On a set's list: only a peer can have brought that about.
        let free = undo::forget_set(self.map(), self.layout(), record, dead)?;
        Ok(free && claim_word(self.map(), owner_at, owner, 0)?)
    }
}

impl Member {
    /// Looks at the next part of the tables for what carries the name of a client that has ended, and takes it back; for
    /// the agent.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn reclaim_some(&self) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.reclaim_part(&self.desk_of(&seat)).map(Ok))
    }

    fn reclaim_part(&self, desk: &Desk<'_>) -> Result<(), Fault> {
        let pool = self.pool();
        let layout = pool.layout();
        for thread in part(&self.rounds.threads, layout.threads.count, ROWS) {
            pool.free_if_dead(field!(thread_at(layout, thread)?, ThreadSlot, owner))?;
        }
        for record in part(&self.rounds.undos, layout.undos.count, ROWS) {
            pool.free_dead_undo(record)?;
        }
        for slab in part(&self.rounds.slabs, layout.slab_meta.count, SLABS) {
            heap::reclaim_slab(pool, desk, slab, self.me(), &mut |owner| pool.is_of_dead(owner))?;
        }
        Ok(())
    }

    /// Takes back everything that carries the name of a client that has ended; for the repair, and tests.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn reclaim_all(&self) -> Result<(), Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let all = || -> Result<(), Fault> {
            self.pool().free_dead_threads()?;
            self.pool().free_dead_undos()?;
            heap::reclaim_dead(self.pool(), &desk, self.me()).map(drop)
        };
        settle(all().map(Ok))
    }
}

/// The next rows of a table, which a round looks at.
fn part(from: &AtomicU32, count: u64, rows: u32) -> std::ops::Range<u32> {
    let count = count as u32;
    let start = from.load(Ordering::Relaxed);
    let start = if start < count { start } else { 0 };
    let end = start.saturating_add(rows).min(count);
    from.store(end, Ordering::Relaxed);
    start..end
}
