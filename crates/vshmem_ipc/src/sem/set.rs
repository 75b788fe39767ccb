//! A set that has been looked up.

use std::mem::offset_of;

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering, WordsRef};
use vshmem_sync::{Fault, Semaphore, UndoRecords, load_value, load_word, structure};
use vshmem_wire::{
    ClientId, ClientSlot, ObjectHeader, ObjectState, Place, ProcessRef, RawCell, SemSlot, UndoSlot,
    WORD_BYTES, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::chunk::Chunk;
use crate::pool::clients::slot_of;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::open::Pool;
use crate::registry::permission::Permission;
use crate::registry::table::{self, SlotState};
use crate::wait::wait_queue::WaitQueue;

/// Looks at what was counted, until nothing has come between.
const MOST_LOOKS: u32 = 64;

/// A set that has been looked up: a private copy of what does not change while it lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set {
    pub index: u32,
    pub sequence: u32,
    /// Its slot.
    pub slot: Place<SemSlot>,
    /// Semaphores.
    pub count: u32,
    /// The first semaphore.
    pub(super) words: Place<RawCell>,
    /// Tag of the cell that says that it stands.
    state_tag: u64,
}

/// The words of a set's slot.
type Fields<'a> = WordsRef<'a, { size_of::<SemSlot>() / WORD_BYTES as usize }>;

impl Set {
    /// The set that an id means; `None`: it has been removed, or never was.
    ///
    /// # Errors
    /// When its slot is corrupt.
    #[inline(always)]
    pub fn find(pool: &Pool, object_slot: ObjectSlot) -> Result<Option<Self>, Fault> {
        match Self::glimpse(pool, object_slot)? {
            Some(set) if set.is_current_in(pool.map())? => Ok(Some(set)),
            _ => Ok(None),
        }
    }

    /// A set as it may have been: what was read belongs together only if [`Set::is_current_in`]
    /// says so afterwards.
    #[inline(always)]
    pub fn glimpse(pool: &Pool, object_slot: ObjectSlot) -> Result<Option<Self>, Fault> {
        let Some(slot) = pool.layout().sem.at(object_slot.index) else {
            return Ok(None);
        };
        let fields = structure!(pool.map(), slot, SemSlot)?;
        let state = fields.load_to_replace(offset_of!(ObjectHeader, state));
        let slot_state = SlotState::unpack(state.value());
        if !slot_state.is(ObjectState::Live) || slot_state.sequence != object_slot.sequence {
            return Ok(None);
        }
        Self::read_as(pool, object_slot, slot, fields, state.tag).map(Some)
    }

    /// Reads the slot's fields, whatever its state.
    #[inline(always)]
    pub fn read(pool: &Pool, object_slot: ObjectSlot, slot: Place<SemSlot>) -> Result<Self, Fault> {
        let fields = structure!(pool.map(), slot, SemSlot)?;
        let state = fields.load_to_replace(offset_of!(ObjectHeader, state));
        Self::read_as(pool, object_slot, slot, fields, state.tag)
    }

    #[inline(always)]
    fn read_as(
        pool: &Pool,
        object_slot: ObjectSlot,
        slot: Place<SemSlot>,
        fields: Fields<'_>,
        state_tag: u64,
    ) -> Result<Self, Fault> {
        let layout = pool.layout();
        let count = fields.load(offset_of!(SemSlot, count), Ordering::Acquire) as u32;
        let unit = fields.load(offset_of!(SemSlot, words), Ordering::Acquire) as u32;
        let words: Place<RawCell> = Chunk(unit).place(layout)?;
        let possible = (1..=pool.geometry().semmsl).contains(&count);
        if !possible || words.nth(count.into()).offset() > layout.heap.end() {
            return Err(Fault::corrupt(slot, "a semaphore set of an impossible size"));
        }
        Ok(Self {
            index: object_slot.index,
            sequence: object_slot.sequence,
            slot,
            count,
            words,
            state_tag,
        })
    }

    /// Its lock.
    pub fn lock(&self) -> Place<RawCell> {
        field!(self.slot, SemSlot, header.lock)
    }

    pub(super) fn wait_queue(&self) -> WaitQueue {
        wait_queue_of(self.slot)
    }

    #[inline]
    pub(super) fn word(&self, number: u32) -> Result<Place<RawCell>, Fault> {
        if number >= self.count {
            return Err(Fault::corrupt(self.slot, "no such semaphore"));
        }
        Ok(self.words.nth(u64::from(number)))
    }

    pub(super) fn state_word(&self, state: ObjectState) -> SlotState {
        SlotState { state: state as u32, sequence: self.sequence }
    }

    /// Whether nothing has happened to the set since it was looked up; outside its lock, so that
    /// may be true for a moment only.
    #[inline(always)]
    pub(super) fn is_current_in(&self, map: &Map) -> Result<bool, Fault> {
        let tag = map.load(field!(self.slot, SemSlot, header.state).tag(), Ordering::Acquire)?;
        Ok(tag == self.state_tag)
    }

    /// Whether the semaphores still lie where they were found: until a removed set has been taken
    /// apart.
    fn has_memory(&self, pool: &Pool) -> Result<bool, Fault> {
        let slot_state = table::slot_state(pool.map(), self.slot.header())?;
        let unit = load_value(pool.map(), field!(self.slot, SemSlot, words))?;
        Ok((slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Dying))
            && slot_state.sequence == self.sequence
            && Chunk(unit).place(pool.layout())? == self.words)
    }

    /// One semaphore, with the undo records that its word may name.
    #[inline]
    pub(crate) fn semaphore<'a>(
        &'a self,
        pool: &'a Pool,
        number: u32,
    ) -> Result<Semaphore<'a, Records<'a>>, Fault> {
        let at = self.word(number)?;
        let array = field!(self.slot, SemSlot, array);
        Ok(Semaphore { map: pool.map(), at, array, records: Records { pool, set: self, number } })
    }

    /// Counts writes of semaphores that are no operations; fewer writes than operations are a
    /// negative number.
    pub(super) fn count_other_writes(&self, map: &Map, writes: u64) {
        // A number that is only shown: what is outside the pool is found by others.
        let _ = map.add(field!(self.slot, SemSlot, other_writes).word(), writes);
    }

    /// Operations since the set was made: one for each semaphore that an array of them has.
    pub(crate) fn operations(&self, map: &Map) -> Result<u64, Fault> {
        let other_writes_at = field!(self.slot, SemSlot, other_writes);
        let before = load_word(map, field!(self.slot, SemSlot, tags_before))?;
        let mut other_writes = load_word(map, other_writes_at)?;
        let mut operations = 0;
        for _ in 0..MOST_LOOKS {
            let mut tags = 0_u64;
            for number in 0..self.count {
                let tag = map.load(self.word(number)?.tag(), Ordering::Acquire)?;
                tags = tags.wrapping_add(tag);
            }
            // The same before and after: what was taken away belongs to these tags.
            let now = load_word(map, other_writes_at)?;
            operations = tags.wrapping_sub(before).wrapping_sub(now);
            if now == other_writes {
                break;
            }
            other_writes = now;
        }
        // On a set that never stands still it may be a few off.
        Ok(operations)
    }
}

/// The undo records of a set, as the words of one semaphore name them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records<'a> {
    pool: &'a Pool,
    set: &'a Set,
    number: u32,
}

impl UndoRecords for Records<'_> {
    fn check_current(&self) -> Result<bool, Fault> {
        self.set.has_memory(self.pool)
    }

    fn adjustment(&self, record: u32) -> Result<Option<Place<RawCell>>, Fault> {
        let (layout, map) = (self.pool.layout(), self.pool.map());
        // What a peer wrote there may be any number.
        let Ok(at) = layout.undos.row(record) else { return Ok(None) };
        if load_value(map, field!(at, UndoSlot, set))? != self.set.index + 1 {
            return Ok(None);
        }
        let room = load_value(map, field!(at, UndoSlot, adjustments))?;
        let Some(unit) = room.checked_sub(1) else { return Ok(None) };
        let Ok(base) = Chunk(unit).place::<RawCell>(layout) else { return Ok(None) };
        let at = base.nth(self.number.into());
        Ok((at.offset() < layout.heap.end()).then_some(at))
    }

    fn operator(&self, record: u32) -> Result<u32, Fault> {
        let (layout, map) = (self.pool.layout(), self.pool.map());
        let Ok(at) = layout.undos.row(record) else { return Ok(0) };
        let Some(client) = ClientId::of(load_word(map, field!(at, UndoSlot, client))?) else {
            return Ok(0);
        };
        let Ok(slot) = slot_of(layout, client) else { return Ok(0) };
        let domain = load_value(map, field!(slot, ClientSlot, domain))?;
        let pid = load_value(map, field!(slot, ClientSlot, pid))?;
        Ok(ProcessRef { domain, pid }.pack())
    }

    #[cold]
    fn count_other_writes(&self, writes: u64) {
        self.set.count_other_writes(self.pool.map(), writes);
    }
}

#[inline(always)]
pub(super) fn find(context: &Context, id: i32) -> Result<Set, Failure> {
    let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
    Ok(Set::find(context.pool(), object_slot)?.ok_or(Errno::INVAL)?)
}

/// As [`find`], for calls by which the program learns or uses the number of semaphores.
pub(super) fn set_of_size(context: &Context, id: i32) -> Result<Set, Failure> {
    let set = find(context, id)?;
    let object_slot = ObjectSlot { index: set.index, sequence: set.sequence };
    context.reported_sizes.check_size(Kind::Semaphore, object_slot, set.count, set.slot)?;
    Ok(set)
}

pub(super) fn permission(context: &Context, set: &Set) -> Result<Permission, Failure> {
    Permission::read(context.pool().map(), set.slot.header()).map_err(Failure::from)
}

/// The wait queue of the set in a slot.
pub(crate) fn wait_queue_of(slot: Place<SemSlot>) -> WaitQueue {
    WaitQueue {
        head: field!(slot, SemSlot, wait_head),
        tail: field!(slot, SemSlot, wait_tail),
        lock: field!(slot, SemSlot, header.lock),
        length: Some(field!(slot, SemSlot, waiting)),
    }
}

/// Who last operated on a semaphore, for listings.
pub(crate) fn last_operator(pool: &Pool, set: &Set, number: u32) -> Result<ProcessRef, Fault> {
    Ok(ProcessRef::unpack(set.semaphore(pool, number)?.read()?.1))
}

/// The cell that counts the waiters of the set in a slot.
pub(crate) fn waiting_of(slot: Place<SemSlot>) -> Place<RawCell> {
    field!(slot, SemSlot, waiting)
}
