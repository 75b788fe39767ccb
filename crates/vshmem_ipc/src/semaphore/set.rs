//! A set that has been looked up.

use super::word::Word;
use crate::access::Permission;
use crate::heap::Chunk;
use crate::id::{Kind, Place};
use crate::registry::{self, Standing};
use crate::wait::Line;
use crate::{Errno, Member, Pool, settle};
use vshmem_mem::Map;
use vshmem_sync::{Fault, Txn, field, load_value};
use vshmem_wire::{CELL_BYTES, ObjectHeader, ObjectState, SemSlot};

/// A set that has been looked up: a private copy of what does not change while it lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set {
    pub index: u32,
    pub sequence: u32,
    /// Byte offset of its slot.
    pub slot: u64,
    /// Semaphores.
    pub count: u32,
    /// Byte offset of the first word.
    words: u64,
}

impl Set {
    pub fn find(pool: &Pool, place: Place) -> Result<Option<Self>, Fault> {
        let layout = pool.layout();
        let Some(slot) = layout.sem.at(place.index) else {
            return Ok(None);
        };
        let map = pool.map();
        let standing = registry::standing(map, slot)?;
        if !standing.is(ObjectState::Live) || standing.sequence != place.sequence {
            return Ok(None);
        }
        let set = Self::read(pool, place, slot)?;
        // What was read belongs to this incarnation only if it still stands.
        Ok((registry::standing(map, slot)? == standing).then_some(set))
    }

    /// Reads the slot's fields, whatever its state.
    pub fn read(pool: &Pool, place: Place, slot: u64) -> Result<Self, Fault> {
        let (layout, map) = (pool.layout(), pool.map());
        let count = load_value(map, field!(slot, SemSlot, count))?;
        let unit = load_value(map, field!(slot, SemSlot, words))?;
        let words = Chunk(unit).offset(layout)?;
        let room = layout.heap.end() - words;
        let possible = (1..=pool.geometry().semmsl).contains(&count);
        if !possible || u64::from(count) * CELL_BYTES > room {
            return Err(Fault::corrupt(slot, "a semaphore set of a size that cannot be"));
        }
        Ok(Self { index: place.index, sequence: place.sequence, slot, count, words })
    }

    pub fn lock(&self) -> u64 {
        field!(self.slot, ObjectHeader, lock)
    }

    pub(super) fn line(&self) -> Line {
        super::line_of(self.slot)
    }

    #[inline]
    pub(super) fn word(&self, number: u32) -> Result<u64, Fault> {
        if number >= self.count {
            return Err(Fault::corrupt(self.slot, "no such semaphore"));
        }
        Ok(self.words + u64::from(number) * CELL_BYTES)
    }

    pub(super) fn stands(&self, value: u32) -> Standing {
        debug_assert!(value <= 0xff);
        Standing { state: value, sequence: self.sequence }
    }

    /// Whether the set is still there; under its lock.
    pub fn alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let value = txn.get(field!(self.slot, ObjectHeader, state))?;
        Ok(Standing::unpack(value) == self.stands(ObjectState::Live as u32))
    }

    /// Whether the set is still there; outside its lock, so it may be gone in a moment.
    #[inline]
    pub(super) fn stands_in(&self, map: &Map) -> Result<bool, Fault> {
        Ok(registry::standing(map, self.slot)? == self.stands(ObjectState::Live as u32))
    }

    /// Closes the fast way to a semaphore and returns its word as this change sees it.
    pub(super) fn close(&self, txn: &mut Txn<'_>, number: u32) -> Result<(u64, Word), Fault> {
        let at = self.word(number)?;
        loop {
            let raw = txn.word(at)?;
            let word = Word::unpack(raw);
            if word.slow {
                return Ok((at, word));
            }
            let closed = word.with(word.value, word.party, true).pack();
            if txn.desk().map.replace(at, raw, closed)? {
                return Ok((at, Word::unpack(closed)));
            }
            // What is staged over a semaphore keeps it closed, unless a peer has laid something
            // else into the same memory.
            if txn.has_written(at) {
                return Err(Fault::corrupt(at, "a semaphore where something else lies"));
            }
        }
    }

    /// Stages a new word over one that was closed before.
    pub(super) fn write(
        &self,
        txn: &mut Txn<'_>,
        at: u64,
        word: Word,
        value: u32,
        party: u32,
    ) -> Result<(), Fault> {
        // The word stays closed in the staged copy; `open` decides at the end of the change.
        let old = word.pack();
        txn.replace(at, old, word.with(value, party, true).pack())
    }
}

impl Member {
    pub(super) fn set(&self, id: i32) -> Result<Set, Errno> {
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        settle(Set::find(self.pool(), place).map(|found| found.ok_or(Errno::INVAL)))
    }

    /// As [`Member::set`], for calls by which the program learns or uses the number of semaphores.
    pub(super) fn set_of_size(&self, id: i32) -> Result<Set, Errno> {
        let set = self.set(id)?;
        let place = Place { index: set.index, sequence: set.sequence };
        self.hold_size(Kind::Semaphore, place, set.count)?;
        Ok(set)
    }

    pub(super) fn set_permission(&self, set: &Set) -> Result<Permission, Errno> {
        settle(Permission::read(self.pool().map(), set.slot).map(Ok))
    }
}
