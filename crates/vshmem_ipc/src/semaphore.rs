//! Semaphore sets: semget(2), semop(2), semctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/sem.c`: an array of operations happens at once or not at all, in the
//! order given; sleepers are served in the order of their arrival as far as their operations can
//! be done; a sleeper's operations are done by whoever made them possible.
//!
//! # Locking
//! A set has one lock, over its values, adjustments and sleepers. A single operation that cannot
//! block, has no SEM_UNDO, and finds nobody asleep does without: it is one compare-and-swap on the
//! semaphore's word. The word's SLOW bit closes that way: it is set by whoever works under the
//! lock before it looks at the word, and stays while there are sleepers. Setting it by mistake
//! costs time and nothing else.
//!
//! # Memory ordering
//! The swap acquires and releases, so that a hand-over carries what was written before it.

use std::time::Duration;

use vshmem_mem::{Instant, Map, Ordering, seconds_now, signals_handled};
use vshmem_sync::{Desk, Fault, Seat, Txn, field, load_cell, load_value};
use vshmem_wire::{
    CELL_BYTES, Cell, INLINE_OPS, ObjectHeader, ObjectState, Party, SemSlot, ThreadSlot, WaitKind,
    WaitState,
};

use crate::access::{Caller, Permission, READ, WRITE, mode_of};
use crate::heap::{self, Chunk, IN_OBJECT};
use crate::id::{Kind, Place};
use crate::registry::{self, MOST_TRIES, Standing, per_kind};
use crate::wait::{self, Line, Rings, Woken, result_of, thread_at};
use crate::{Errno, Member, Pool, Verdict, settle, undo};

/// IPC_CREAT.
const CREATE: i32 = 0o1000;
/// IPC_EXCL.
const EXCLUSIVE: i32 = 0o2000;

/// One operation of a semop call (`struct sembuf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operation {
    /// Number of the semaphore in the set.
    pub number: u16,
    /// What to add; 0: wait for zero.
    pub change: i16,
    /// IPC_NOWAIT.
    pub no_wait: bool,
    /// SEM_UNDO.
    pub undo: bool,
}

impl Operation {
    fn pack(self) -> u64 {
        u64::from(self.number)
            | u64::from(self.change as u16) << 16
            | u64::from(self.no_wait) << 32
            | u64::from(self.undo) << 33
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            number: word as u16,
            change: (word >> 16) as u16 as i16,
            no_wait: word >> 32 & 1 != 0,
            undo: word >> 33 & 1 != 0,
        }
    }
}

/// A set as IPC_STAT tells it (`struct semid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Semaphores.
    pub count: u32,
    /// Seconds since 1970 of the last semop, 0 for none.
    pub operated: u32,
    /// Seconds since 1970 of creation or IPC_SET.
    pub changed: u32,
}

/// Totals (`struct seminfo` after SEM_INFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemInfo {
    /// Sets in use.
    pub sets: u32,
    /// Semaphores in use.
    pub semaphores: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}

/// The word of one semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub value: u32,
    pub slow: bool,
    pub party: u32,
    version: u32,
}

impl Word {
    const VERSION_BITS: u32 = 19;

    #[inline]
    pub fn unpack(word: u64) -> Self {
        Self {
            value: (word & 0x7fff) as u32,
            slow: word & 0x8000 != 0,
            party: (word >> 16 & 0x1fff_ffff) as u32,
            version: (word >> 45) as u32,
        }
    }

    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.value & 0x7fff)
            | u64::from(self.slow) << 15
            | u64::from(self.party & 0x1fff_ffff) << 16
            | u64::from(self.version & ((1 << Self::VERSION_BITS) - 1)) << 45
    }

    #[inline]
    fn with(self, value: u32, party: u32, slow: bool) -> Self {
        Self { value, party, slow, version: self.version.wrapping_add(1) }
    }
}

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

    fn line(&self) -> Line {
        line_of(self.slot)
    }

    #[inline]
    fn word(&self, number: u32) -> Result<u64, Fault> {
        if number >= self.count {
            return Err(Fault::corrupt(self.slot, "no such semaphore"));
        }
        Ok(self.words + u64::from(number) * CELL_BYTES)
    }

    fn stands(&self, value: u32) -> Standing {
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
    fn stands_in(&self, map: &Map) -> Result<bool, Fault> {
        Ok(registry::standing(map, self.slot)? == self.stands(ObjectState::Live as u32))
    }

    /// Closes the fast way to a semaphore and returns its word as this change sees it.
    fn close(&self, txn: &mut Txn<'_>, number: u32) -> Result<(u64, Word), Fault> {
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
        }
    }

    /// Stages a new word over one that was closed before.
    fn write(
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

/// What an array of operations would do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// All of them can be done.
    Done,
    /// Operation number so-and-so has to wait.
    Blocks(usize),
    /// They never can.
    Fails(Errno),
}

/// Values that an array of operations has come by, before any is written.
struct Values {
    few: arrayvec::ArrayVec<(u16, i32), 16>,
    many: Option<vshmem_mem::Scratch<u64>>,
    used: usize,
}

impl Values {
    fn new(operations: usize) -> Result<Self, Fault> {
        let many = if operations > 16 {
            Some(vshmem_mem::Scratch::new(operations).ok_or(Fault::TooLong)?)
        } else {
            None
        };
        Ok(Self { few: arrayvec::ArrayVec::new(), many, used: 0 })
    }

    fn get(&mut self, number: u16) -> Option<i32> {
        match &mut self.many {
            None => self.few.iter().find(|(n, _)| *n == number).map(|(_, value)| *value),
            Some(many) => many.as_mut()[..self.used]
                .iter()
                .find(|word| (**word >> 32) as u16 == number)
                .map(|word| *word as u32 as i32),
        }
    }

    fn put(&mut self, number: u16, value: i32) {
        match &mut self.many {
            None => match self.few.iter_mut().find(|(n, _)| *n == number) {
                Some(known) => known.1 = value,
                None => self.few.push((number, value)),
            },
            Some(many) => {
                let packed = u64::from(number) << 32 | u64::from(value as u32);
                let known = many.as_mut()[..self.used]
                    .iter()
                    .position(|word| (*word >> 32) as u16 == number);
                let at = known.unwrap_or(self.used);
                many.as_mut()[at] = packed;
                self.used = self.used.max(at + 1);
            }
        }
    }
}

/// A private copy of a sleeper's operations, which are known to be few.
fn operations_of(
    map: &Map,
    thread: u64,
    count: u64,
) -> Result<arrayvec::ArrayVec<Operation, INLINE_OPS>, Fault> {
    (0..count.min(INLINE_OPS as u64))
        .map(|nth| {
            let word = map.load(field!(thread, ThreadSlot, ops) + nth * 8, Ordering::Relaxed)?;
            Ok(Operation::unpack(word))
        })
        .collect()
}

/// Tries operations on a set and stages them if all can be done.
fn perform(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    operations: &[Operation],
    record: Option<u32>,
    party: u32,
) -> Result<Trial, Fault> {
    let highest = pool.geometry().semvmx as i32;
    let mut values = Values::new(operations.len())?;
    let adjustments = match record {
        Some(record) => Some(undo::adjustments(txn, pool.layout(), record)?),
        None => None,
    };
    for (index, operation) in operations.iter().enumerate() {
        let value = match values.get(operation.number) {
            Some(value) => value,
            None => set.close(txn, operation.number.into())?.1.value as i32,
        };
        let blocked =
            if operation.no_wait { Trial::Fails(Errno::AGAIN) } else { Trial::Blocks(index) };
        let change = i32::from(operation.change);
        if change == 0 && value != 0 {
            return Ok(blocked);
        }
        if value + change < 0 {
            return Ok(blocked);
        }
        if value + change > highest {
            return Ok(Trial::Fails(Errno::RANGE));
        }
        values.put(operation.number, value + change);
    }
    // Adjustments that leave their range fail before anything is written.
    if let Some(base) = adjustments {
        let mut totals = Values::new(operations.len())?;
        for operation in operations {
            if !operation.undo {
                continue;
            }
            let known = match totals.get(operation.number) {
                Some(total) => total,
                None => txn.get(base + u64::from(operation.number) * CELL_BYTES)? as i32,
            };
            // What a peer wrote there may be any number.
            let total = known.saturating_sub(i32::from(operation.change));
            if !(-32768..=32767).contains(&total) {
                return Ok(Trial::Fails(Errno::RANGE));
            }
            totals.put(operation.number, total);
        }
        for operation in operations {
            if operation.undo
                && operation.change != 0
                && let Some(total) = totals.get(operation.number)
            {
                txn.update(base + u64::from(operation.number) * CELL_BYTES, total as u32)?;
            }
        }
    }
    for operation in operations {
        let number = operation.number;
        let value = values.get(number).unwrap_or(0);
        let (at, word) = set.close(txn, number.into())?;
        if word.value != value as u32 || word.party != party {
            set.write(txn, at, word, value as u32, party)?;
        }
    }
    Ok(Trial::Done)
}

/// Opens the fast way again on the words that this change has closed, if nobody sleeps.
fn reopen(txn: &mut Txn<'_>, set: &Set, operations: &[Operation]) -> Result<(), Fault> {
    if txn.get(field!(set.slot, SemSlot, waiting))? != 0 {
        return Ok(());
    }
    for operation in operations {
        let at = set.word(operation.number.into())?;
        let raw = txn.word(at)?;
        let word = Word::unpack(raw);
        if word.slow {
            txn.replace(
                at,
                raw,
                Word { slow: false, ..word.with(word.value, word.party, false) }.pack(),
            )?;
        }
    }
    Ok(())
}

/// Does the work of sleepers that can go on now, in the order of their arrival. True when the
/// record is full and there may be more to do.
fn serve(txn: &mut Txn<'_>, pool: &Pool, set: &Set, rings: &mut Rings) -> Result<bool, Fault> {
    let layout = pool.layout();
    let waiting_at = field!(set.slot, SemSlot, waiting);
    if txn.get(waiting_at)? == 0 {
        return Ok(false);
    }
    let mut more = false;
    loop {
        let mut again = false;
        wait::walk(txn, layout, set.line(), |txn, slot| {
            let at = thread_at(layout, slot)?;
            let count = txn.desk().map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            // Too many to do on its behalf: it does them itself, if it can.
            let too_many = count > INLINE_OPS as u64;
            // Leaving the line takes up to seven words, every operation up to two.
            if txn.room() < if too_many { 8 } else { 8 + 2 * count as usize } {
                more = true;
                return Ok(false);
            }
            let (state, result) = if too_many {
                (WaitState::Retry, 0)
            } else {
                let operations = operations_of(txn.desk().map, at, count)?;
                let record =
                    txn.desk().map.load(field!(at, ThreadSlot, size), Ordering::Relaxed)?;
                let record = (record as u32).checked_sub(1);
                let party = txn.get(field!(at, ThreadSlot, party))?;
                if operations.iter().any(|one| u32::from(one.number) >= set.count) {
                    return Err(Fault::corrupt(at, "a sleeper at no semaphore"));
                }
                match perform(txn, pool, set, &operations, record, party)? {
                    Trial::Blocks(index) => {
                        let blocked = blocked_at(operations[index]);
                        txn.update(field!(at, ThreadSlot, blocked), blocked)?;
                        return Ok(true);
                    }
                    Trial::Fails(errno) => (WaitState::Done, result_of(errno)),
                    Trial::Done => {
                        again = true;
                        (WaitState::Done, 0)
                    }
                }
            };
            wait::leave_line(txn, layout, set.line(), slot, state, result)?;
            rings.add(slot);
            Ok(!again)
        })?;
        if !again || more {
            return Ok(more);
        }
    }
}

/// What a sleeper is counted under by GETNCNT and GETZCNT.
fn blocked_at(operation: Operation) -> u32 {
    u32::from(operation.number) | u32::from(operation.change == 0) << 31
}

impl Member {
    /// Runs a change under a lock, with a longer intent record if the usual one is too short.
    pub(crate) fn change<'a, T>(
        &'a self,
        desk: &Desk<'a>,
        lock: u64,
        name: &'static str,
        mut body: impl FnMut(&mut Txn<'a>) -> Verdict<T>,
    ) -> Verdict<T> {
        let short = vshmem_sync::with_lock(*desk, lock, name, &mut body);
        if !matches!(short, Err(Fault::TooLong)) {
            return short;
        }
        /// Entries of a longer record: enough for semop's limit, then for a whole set.
        const LONGER: [usize; 2] = [2000, vshmem_wire::MORE_LOG_ENTRIES];
        for entries in LONGER {
            let bytes = (entries * size_of::<vshmem_wire::LogEntry>()) as u64;
            let chunk = match self.take_chunk(desk, bytes) {
                Ok(chunk) => chunk,
                Err(errno) => return Ok(Err(errno)),
            };
            let offset = chunk.offset(self.pool().layout())?;
            let done = vshmem_sync::with_lock_long(*desk, lock, name, offset, entries, &mut body);
            heap::release(self.pool(), desk, &self.larder, self.me(), chunk)?;
            if !matches!(done, Err(Fault::TooLong)) {
                return done;
            }
        }
        Err(Fault::TooLong)
    }

    /// A chunk of the heap; ENOMEM when it is full.
    pub(crate) fn take_chunk(&self, desk: &Desk<'_>, bytes: u64) -> Result<Chunk, Errno> {
        match heap::allocate(self.pool(), desk, &self.larder, self.me(), bytes) {
            Ok(Some(chunk)) => Ok(chunk),
            Ok(None) => Err(Errno::NOMEM),
            Err(_) => Err(Errno::IO),
        }
    }

    /// Gives back a chunk that this client has inherited from an object.
    pub(crate) fn discard_chunk(&self, desk: &Desk<'_>, chunk: Option<Chunk>) {
        if let Some(chunk) = chunk {
            // What cannot be given back now is when this client ends.
            let _ = heap::discard(self.pool(), desk, chunk, heap::owned_by(self.me()));
        }
    }

    fn set(&self, id: i32) -> Result<Set, Errno> {
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        settle(Set::find(self.pool(), place).map(|found| found.ok_or(Errno::INVAL)))
    }

    /// As [`Member::set`], for calls by which the program learns or uses the number of semaphores.
    fn set_of_size(&self, id: i32) -> Result<Set, Errno> {
        let set = self.set(id)?;
        let place = Place { index: set.index, sequence: set.sequence };
        self.hold_size(Kind::Semaphore, place, set.count)?;
        Ok(set)
    }

    fn set_permission(&self, set: &Set) -> Result<Permission, Errno> {
        settle(Permission::read(self.pool().map(), set.slot).map(Ok))
    }

    /// semget(2).
    ///
    /// # Errors
    /// As the man page says: EACCES, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC.
    pub fn semget(
        &self,
        key: i32,
        count: i32,
        flags: i32,
        caller: &dyn Caller,
    ) -> Result<i32, Errno> {
        let pool = self.pool();
        let (layout, geometry) = (pool.layout(), pool.geometry());
        if count < 0 || count as u32 > geometry.semmsl {
            return Err(Errno::INVAL);
        }
        let count = count as u32;
        for _ in 0..MOST_TRIES {
            if key != 0
                && let Some(place) = self.find_existing(Kind::Semaphore, key)?
            {
                if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
                    return Err(Errno::EXIST);
                }
                let set = match self.set(place.id()) {
                    Err(Errno::INVAL) => continue,
                    found => found?,
                };
                if count > set.count {
                    return Err(Errno::INVAL);
                }
                self.set_permission(&set)?.allow(caller, mode_of(flags))?;
                self.tell_size(Kind::Semaphore, place, set.count)?;
                return Ok(place.id());
            }
            if key != 0 && flags & CREATE == 0 {
                return Err(Errno::NOENT);
            }
            if count == 0 {
                return Err(Errno::INVAL);
            }
            let seat = self.seat()?;
            let desk = self.desk_of(&seat);
            let chunk = self.take_chunk(&desk, u64::from(count) * CELL_BYTES)?;
            let make = || -> Verdict<Option<Place>> {
                let base = chunk.offset(layout)?;
                // Words start at a version of their own, so that what was prepared against the
                // memory's former use does not fit.
                let owner = Cell::unpack(load_cell(pool.map(), chunk.owner(layout)?)?);
                let version = owner.version.wrapping_mul(0x9e37_79b9);
                let word = Word { value: 0, slow: false, party: 0, version }.pack();
                for number in 0..u64::from(count) {
                    pool.map().store(base + number * CELL_BYTES, word, Ordering::Relaxed)?;
                }
                let permission = Permission {
                    key,
                    uid: caller.uid(),
                    gid: caller.gid(),
                    cuid: caller.uid(),
                    cgid: caller.gid(),
                    mode: mode_of(flags),
                    sequence: 0,
                };
                self.change(&desk, pool.registry_lock(), "semget", |txn| {
                    let exists = key != 0
                        && registry::find_key(layout, Kind::Semaphore, key, |at| txn.get(at))?
                            .is_some();
                    if exists {
                        return Ok(Ok(None));
                    }
                    let Some(place) = registry::take_slot(txn, layout, Kind::Semaphore)? else {
                        return Ok(Err(Errno::NOSPC));
                    };
                    let slot = registry::slot_at(layout, Kind::Semaphore, place.index)?;
                    registry::describe(txn, slot, &permission, seconds_now())?;
                    txn.update(field!(slot, SemSlot, count), count)?;
                    txn.update(field!(slot, SemSlot, words), chunk.0)?;
                    txn.update(field!(slot, SemSlot, operated), 0)?;
                    heap::pass(txn, layout, chunk, heap::owned_by(self.me()), IN_OBJECT)?;
                    if key != 0 {
                        registry::enter_key(txn, layout, Kind::Semaphore, place.index, key)?;
                    }
                    let live =
                        Standing { state: ObjectState::Live as u32, sequence: place.sequence };
                    txn.set(field!(slot, ObjectHeader, state), live.pack())?;
                    Ok(Ok(Some(place)))
                })
            };
            let made = settle(make());
            if !matches!(made, Ok(Some(_))) {
                let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
            }
            if let Some(place) = made? {
                self.tell_size(Kind::Semaphore, place, count)?;
                return Ok(place.id());
            }
        }
        Err(Errno::IO)
    }

    /// semop(2) and semtimedop(2).
    ///
    /// # Errors
    /// As the man page says.
    pub fn semop(
        &self,
        id: i32,
        operations: &[Operation],
        timeout: Option<Duration>,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        if operations.is_empty() {
            return Err(Errno::INVAL);
        }
        if operations.len() > self.pool().geometry().semopm as usize {
            return Err(Errno::TOOBIG);
        }
        let set = self.set(id)?;
        if operations.iter().any(|operation| u32::from(operation.number) >= set.count) {
            return Err(Errno::FBIG);
        }
        let alters = operations.iter().any(|operation| operation.change != 0);
        let wanted = if alters { WRITE } else { READ };
        settle(Permission::check(self.pool().map(), set.slot, caller, wanted))?;
        if let [operation] = operations
            && !operation.undo
            && let Some(result) = settle(self.semop_fast(&set, *operation).map(Ok))?
        {
            return result;
        }
        self.semop_slow(&set, operations, timeout)
    }

    /// One compare-and-swap, if that will do. `None`: it will not.
    #[inline]
    fn semop_fast(
        &self,
        set: &Set,
        operation: Operation,
    ) -> Result<Option<Result<(), Errno>>, Fault> {
        let map = self.pool().map();
        let at = set.word(operation.number.into())?;
        loop {
            let raw = map.load(at, Ordering::Acquire)?;
            let word = Word::unpack(raw);
            // Looked at after the word, so that the word was the set's when it was read: memory
            // that has become something else since refuses the swap by its version.
            if word.slow || !set.stands_in(map)? {
                return Ok(None);
            }
            let value = word.value as i32 + i32::from(operation.change);
            if value < 0 || (operation.change == 0 && value != 0) {
                return Ok(operation.no_wait.then_some(Err(Errno::AGAIN)));
            }
            if value > self.pool().geometry().semvmx as i32 {
                return Ok(Some(Err(Errno::RANGE)));
            }
            let next = word.with(value as u32, self.party().pack(), false);
            if map.replace(at, raw, next.pack())? {
                break;
            }
        }
        // Not part of the step: a clock of whole seconds, whoever writes it last.
        let stamp = field!(set.slot, SemSlot, operated);
        let now = seconds_now();
        let before = load_value(map, stamp)?;
        if before != now {
            vshmem_sync::claim_cell(map, stamp, before, now)?;
        }
        Ok(Some(Ok(())))
    }

    #[inline(never)]
    fn semop_slow(
        &self,
        set: &Set,
        operations: &[Operation],
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        let signals_seen = signals_handled();
        let deadline = timeout.map(|span| Instant::now().after(span));
        let pool = self.pool();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let wants_undo = operations.iter().any(|operation| operation.undo);
        let record = if wants_undo {
            Some(
                self.undo_record(&desk, set)
                    .map_err(|errno| if errno == Errno::IDRM { Errno::INVAL } else { errno })?,
            )
        } else {
            None
        };
        let long = if operations.len() > INLINE_OPS {
            Some(self.take_chunk(&desk, operations.len() as u64 * 8)?)
        } else {
            None
        };
        let result = self.semop_until(set, operations, record, long, deadline, signals_seen, &seat);
        if let Some(chunk) = long {
            let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
        }
        result
    }

    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn semop_until(
        &self,
        set: &Set,
        operations: &[Operation],
        record: Option<u32>,
        long: Option<Chunk>,
        deadline: Option<Instant>,
        signals_seen: u32,
        seat: &Seat<'_>,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let desk = self.desk_of(seat);
        let party = self.party().pack();
        let mut gone = Errno::INVAL;
        // Why this call does not sleep again: a peer may keep on sending it to try again.
        let mut over = None;
        loop {
            let mut rings = Rings::default();
            // Some(blocked): asleep from now on. None: done.
            let step = self.change(&desk, set.lock(), "semop", |txn| {
                rings.clear();
                if !set.alive(txn)? {
                    return Ok(Err(gone));
                }
                match perform(txn, pool, set, operations, record, party)? {
                    Trial::Fails(errno) => {
                        reopen(txn, set, operations)?;
                        Ok(Err(errno))
                    }
                    Trial::Done => {
                        txn.update(field!(set.slot, SemSlot, operated), seconds_now())?;
                        let more = serve(txn, pool, set, &mut rings)?;
                        reopen(txn, set, operations)?;
                        Ok(Ok(Some(more)))
                    }
                    Trial::Blocks(_) if over.is_some() => {
                        reopen(txn, set, operations)?;
                        Ok(Err(over.unwrap_or(Errno::AGAIN)))
                    }
                    Trial::Blocks(index) => {
                        self.lie_down(txn, set, operations, index, record, long, seat.slot)?;
                        Ok(Ok(None))
                    }
                }
            });
            if let Some(more) = settle(step)? {
                self.ring_all(&rings);
                if more {
                    self.serve_rest(&desk, set)?;
                }
                return Ok(());
            }
            // Whoever dies between changing the set and serving its sleepers is made up for here.
            let tend = || match self.tend_set(&desk, set) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::corrupt(set.slot, "a set that cannot be served")),
            };
            let slept = self.sleep_in_line(seat, set.line(), deadline, signals_seen, tend);
            let woken = settle(slept.map(Ok))?;
            if matches!(woken, Woken::TimedOut | Woken::Interrupted) {
                self.reopen_all(&desk, set, operations)?;
            }
            match woken {
                Woken::Done(0) => return Ok(()),
                Woken::Done(errno) => return Err(Errno::from_raw_os_error(errno as i32)),
                Woken::TimedOut => return Err(Errno::AGAIN),
                Woken::Interrupted => return Err(Errno::INTR),
                Woken::Retry => gone = Errno::IDRM,
            }
            if signals_handled() != signals_seen {
                over = Some(Errno::INTR);
            } else if deadline.is_some_and(|end| end.remaining(Instant::now()).is_zero()) {
                over = Some(Errno::AGAIN);
            }
        }
    }

    /// Writes down what this sleeper waits for, and stages its place in the line.
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn lie_down(
        &self,
        txn: &mut Txn<'_>,
        set: &Set,
        operations: &[Operation],
        blocked: usize,
        record: Option<u32>,
        long: Option<Chunk>,
        slot: u32,
    ) -> Result<(), Fault> {
        let layout = self.pool().layout();
        let map = txn.desk().map;
        let at = thread_at(layout, slot)?;
        // Plain words: nobody reads them before the slot is in a line.
        map.store(field!(at, ThreadSlot, count), operations.len() as u64, Ordering::Relaxed)?;
        let record = record.map_or(0, |record| u64::from(record) + 1);
        map.store(field!(at, ThreadSlot, size), record, Ordering::Relaxed)?;
        let base = match long {
            Some(chunk) => chunk.offset(layout)?,
            None => field!(at, ThreadSlot, ops),
        };
        let sequence = u64::from(set.sequence);
        map.store(field!(at, ThreadSlot, argument), sequence, Ordering::Relaxed)?;
        for (index, operation) in operations.iter().enumerate() {
            map.store(base + index as u64 * 8, operation.pack(), Ordering::Relaxed)?;
        }
        txn.update(field!(at, ThreadSlot, blocked), blocked_at(operations[blocked]))?;
        txn.update(field!(at, ThreadSlot, party), self.party().pack())?;
        wait::join_line(txn, layout, set.line(), slot, WaitKind::Semaphore, set.index)
    }

    /// Opens the fast way again after a sleeper has left, if it was the last one.
    fn reopen_all(
        &self,
        desk: &Desk<'_>,
        set: &Set,
        operations: &[Operation],
    ) -> Result<(), Errno> {
        settle(self.change(desk, set.lock(), "semop-reopen", |txn| {
            if set.alive(txn)? {
                reopen(txn, set, operations)?;
            }
            Ok(Ok(()))
        }))
    }

    /// Serves sleepers until no more can go on.
    fn serve_rest(&self, desk: &Desk<'_>, set: &Set) -> Result<(), Errno> {
        // Each round but the last takes somebody off the line.
        for _ in 0..=self.pool().layout().threads.count {
            let mut rings = Rings::default();
            let more = self.change(desk, set.lock(), "semop-serve", |txn| {
                rings.clear();
                if !set.alive(txn)? {
                    return Ok(Ok(false));
                }
                serve(txn, self.pool(), set, &mut rings).map(Ok)
            });
            let more = settle(more)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// Makes up for somebody who died halfway: serves sleepers, or goes on taking the set apart.
    pub(crate) fn tend_set(&self, desk: &Desk<'_>, set: &Set) -> Result<(), Errno> {
        let standing = settle(registry::standing(self.pool().map(), set.slot).map(Ok))?;
        if standing == set.stands(ObjectState::Dying as u32) {
            return self.dismantle_set(desk, set);
        }
        self.serve_rest(desk, set)
    }

    /// Applies and frees one undo record, for a process that has ended.
    pub(crate) fn apply_undo(
        &self,
        desk: &Desk<'_>,
        set: &Set,
        record: u32,
        client: u32,
        party: u32,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let highest = pool.geometry().semvmx as i32;
        /// Semaphores adjusted in one change: two words each, and room for sleepers.
        const AT_ONCE: usize = 8;
        // Adjustments below this are zero, as an earlier round has left them.
        let mut from = 0;
        loop {
            let mut freed = None;
            let mut next = from;
            let step = self.change(desk, set.lock(), "undo-apply", |txn| {
                freed = None;
                let at = undo::undo_at(layout, record)?;
                let standing = Standing::unpack(txn.get(field!(set.slot, ObjectHeader, state))?);
                let same = txn.get(field!(at, vshmem_wire::UndoSlot, client))? == client + 1
                    && txn.get(field!(at, vshmem_wire::UndoSlot, set))? == set.index + 1;
                if !same || standing.sequence != set.sequence {
                    return Ok(Ok(true));
                }
                let base = undo::adjustments(txn, layout, record)?;
                let mut adjusted = 0;
                for number in from..set.count {
                    let adjustment_at = base + u64::from(number) * CELL_BYTES;
                    let adjustment = txn.get(adjustment_at)? as i32;
                    if adjustment == 0 {
                        continue;
                    }
                    if adjusted == AT_ONCE {
                        next = number;
                        return Ok(Ok(false));
                    }
                    let (word_at, word) = set.close(txn, number)?;
                    let value =
                        (word.value as i32 + adjustment.clamp(-32768, 32767)).clamp(0, highest);
                    set.write(txn, word_at, word, value as u32, party)?;
                    txn.set(adjustment_at, 0)?;
                    adjusted += 1;
                }
                freed = undo::unlink(txn, layout, set, record, self.me())?;
                if adjusted > 0 {
                    txn.update(field!(set.slot, SemSlot, operated), seconds_now())?;
                }
                Ok(Ok(true))
            });
            let finished = settle(step)?;
            self.discard_chunk(desk, freed);
            self.serve_rest(desk, set)?;
            if finished {
                return Ok(());
            }
            from = next;
        }
    }

    /// Takes back what was done for a sleeper that died before it could know: the operations
    /// without SEM_UNDO, as the others are undone with its adjustments.
    pub(crate) fn take_back(&self, desk: &Desk<'_>, thread: u32, set: &Set) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let highest = pool.geometry().semvmx as i32;
        let step = self.change(desk, set.lock(), "sem-take-back", |txn| {
            let at = thread_at(layout, thread)?;
            let map = txn.desk().map;
            let count = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            let sequence = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
            let unseen = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Done as u32
                && txn.get(field!(at, ThreadSlot, result))? == 0
                && txn.get(field!(at, ThreadSlot, kind))? == WaitKind::Semaphore as u32
                && txn.get(field!(at, ThreadSlot, object))? == set.index
                && sequence == u64::from(set.sequence)
                && count <= INLINE_OPS as u64;
            if !unseen || !set.alive(txn)? {
                return Ok(Ok(()));
            }
            let party = txn.get(field!(at, ThreadSlot, party))?;
            for operation in operations_of(map, at, count)? {
                if operation.undo || operation.change == 0 {
                    continue;
                }
                let (at, word) = set.close(txn, operation.number.into())?;
                let value = (word.value as i32 - i32::from(operation.change)).clamp(0, highest);
                set.write(txn, at, word, value as u32, party)?;
            }
            txn.set(field!(at, ThreadSlot, wait), WaitState::Idle as u32)?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_rest(desk, set)
    }

    /// semctl GETVAL, GETPID, GETNCNT, GETZCNT and GETALL read; this reads one word.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_value(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        Ok(self.semaphore_word(id, number, caller)?.value)
    }

    /// GETPID: the last process to operate on a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_pid(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        Ok(self.pid_here(self.semaphore_word(id, number, caller)?.party))
    }

    fn semaphore_word(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<Word, Errno> {
        let set = self.set(id)?;
        settle(Permission::check(self.pool().map(), set.slot, caller, READ))?;
        let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
        let read = || -> Verdict<Word> {
            Ok(Ok(Word::unpack(self.pool().map().load(set.word(number)?, Ordering::Acquire)?)))
        };
        settle(read())
    }

    /// GETNCNT (`zero` false) and GETZCNT: sleepers blocked at a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_sleepers(
        &self,
        id: i32,
        number: i32,
        zero: bool,
        caller: &dyn Caller,
    ) -> Result<u32, Errno> {
        let set = self.set(id)?;
        settle(Permission::check(self.pool().map(), set.slot, caller, READ))?;
        let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let layout = self.pool().layout();
        let wanted = number | u32::from(zero) << 31;
        settle(self.change(&desk, set.lock(), "sem-count", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::INVAL));
            }
            let mut count = 0;
            wait::walk(txn, layout, set.line(), |txn, slot| {
                let blocked = txn.get(field!(thread_at(layout, slot)?, ThreadSlot, blocked))?;
                count += u32::from(blocked == wanted);
                Ok(true)
            })?;
            Ok(Ok(count))
        }))
    }

    /// GETALL: copies all values out.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_values(
        &self,
        id: i32,
        caller: &dyn Caller,
        mut each: impl FnMut(usize, u16),
    ) -> Result<(), Errno> {
        let set = self.set_of_size(id)?;
        settle(Permission::check(self.pool().map(), set.slot, caller, READ))?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, set.lock(), "sem-getall", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            // Closed first, so that no fast operation comes between two reads.
            for number in 0..set.count {
                if set.count > 1 {
                    set.close(txn, number)?;
                }
            }
            for number in 0..set.count {
                let word = Word::unpack(txn.word(set.word(number)?)?);
                each(number as usize, word.value as u16);
            }
            Ok(Ok(()))
        }))
    }

    /// SETVAL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphore(
        &self,
        id: i32,
        number: i32,
        value: i32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        // The kernel looks at the value before anything else (semctl_setval).
        if value < 0 || value > self.pool().geometry().semvmx as i32 {
            return Err(Errno::RANGE);
        }
        let set = self.set(id)?;
        let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
        self.set_permission(&set)?.allow(caller, WRITE)?;
        self.write_values(&set, "sem-setval", &|at| (at == number).then_some(value as u32))
    }

    /// SETALL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphores(
        &self,
        id: i32,
        values: &dyn Fn(usize) -> u16,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let set = self.set_of_size(id)?;
        self.set_permission(&set)?.allow(caller, WRITE)?;
        let highest = self.pool().geometry().semvmx;
        if (0..set.count as usize).any(|number| u32::from(values(number)) > highest) {
            return Err(Errno::RANGE);
        }
        self.write_values(&set, "sem-setall", &|at| Some(u32::from(values(at as usize))))
    }

    /// Number of semaphores in a set, for callers that have to size a buffer.
    ///
    /// # Errors
    /// EINVAL.
    pub fn semaphore_count(&self, id: i32) -> Result<usize, Errno> {
        Ok(self.set_of_size(id)?.count as usize)
    }

    fn write_values(
        &self,
        set: &Set,
        name: &'static str,
        value: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<(), Errno> {
        let layout = self.pool().layout();
        let party = self.party().pack();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let mut rings = Rings::default();
        let step = self.change(&desk, set.lock(), name, |txn| {
            rings.clear();
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            let sleepers = txn.get(field!(set.slot, SemSlot, waiting))? != 0;
            for number in (0..set.count).filter(|&number| value(number).is_some()) {
                let at = set.word(number)?;
                // Nothing is staged for these words yet, so the pool's own word is the one.
                let (_, word) = loop {
                    let raw = txn.desk().map.load(at, Ordering::Acquire)?;
                    let word = Word::unpack(raw);
                    let closed = word.with(word.value, word.party, true);
                    if word.slow || txn.desk().map.replace(at, raw, closed.pack())? {
                        break (at, if word.slow { word } else { closed });
                    }
                };
                let next = word.with(value(number).unwrap_or(0), party, sleepers);
                txn.replace_first(at, word.pack(), next.pack())?;
            }
            undo::walk(txn, layout, set, |txn, record| {
                let base = undo::adjustments(txn, layout, record)?;
                txn.step(set.count)?;
                for number in (0..set.count).filter(|&number| value(number).is_some()) {
                    let at = base + u64::from(number) * CELL_BYTES;
                    let old = txn.desk().map.load(at, Ordering::Acquire)?;
                    if old as u32 != 0 {
                        txn.replace_first(at, old, vshmem_wire::Cell::successor(old, 0))?;
                    }
                }
                Ok(true)
            })?;
            txn.update(field!(set.slot, ObjectHeader, changed), seconds_now())?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_rest(&desk, set)
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn set_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let set = self.set(id)?;
        self.set_permission(&set)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, set.lock(), "sem-set", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            registry::set_owner(txn, set.slot, uid, gid, mode).map(Ok)
        }))
    }

    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn set_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        let set = self.set(id)?;
        self.set_permission(&set)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let removed = self.change(&desk, set.lock(), "sem-remove", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            let dying = set.stands(ObjectState::Dying as u32);
            txn.set(field!(set.slot, ObjectHeader, state), dying.pack())?;
            Ok(Ok(()))
        });
        settle(removed)?;
        self.dismantle_set(&desk, &set)
    }

    /// Takes a removed set apart. May be done by anybody, several times, and be left halfway.
    pub(crate) fn dismantle_set(&self, desk: &Desk<'_>, set: &Set) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let dying = set.stands(ObjectState::Dying as u32).pack();
        let state_at = field!(set.slot, ObjectHeader, state);
        // Each round but the last takes a sleeper or an undo record away.
        let mut rounds = layout.threads.count + layout.undos.count + 1;
        loop {
            rounds = rounds.checked_sub(1).ok_or(Errno::IO)?;
            let mut rings = Rings::default();
            let mut freed = None;
            let step = self.change(desk, set.lock(), "sem-dismantle", |txn| {
                rings.clear();
                freed = None;
                if txn.get(state_at)? != dying {
                    return Ok(Ok(true));
                }
                let mut more = false;
                wait::walk(txn, layout, set.line(), |txn, slot| {
                    if txn.room() < 8 {
                        more = true;
                        return Ok(false);
                    }
                    let gone = result_of(Errno::IDRM);
                    wait::leave_line(txn, layout, set.line(), slot, WaitState::Done, gone)?;
                    rings.add(slot);
                    Ok(true)
                })?;
                if more || txn.room() < 8 {
                    return Ok(Ok(false));
                }
                let Some(record) = txn.get(field!(set.slot, SemSlot, undos))?.checked_sub(1) else {
                    return Ok(Ok(true));
                };
                freed = undo::unlink(txn, layout, set, record, self.me())?;
                Ok(Ok(false))
            });
            let finished = settle(step)?;
            self.discard_chunk(desk, freed);
            self.ring_all(&rings);
            if finished {
                break;
            }
        }
        settle(self.change(desk, pool.registry_lock(), "sem-free", |txn| {
            if txn.get(state_at)? != dying {
                return Ok(Ok(()));
            }
            registry::leave_key(txn, layout, Kind::Semaphore, set.index)?;
            let unit = txn.get(field!(set.slot, SemSlot, words))?;
            heap::free_from_object(txn, layout, Chunk(unit))?;
            registry::free_slot(txn, layout, Kind::Semaphore, set.index)?;
            Ok(Ok(()))
        }))
    }

    /// IPC_STAT; SEM_STAT and SEM_STAT_ANY by `set_at_index`.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_stat(&self, id: i32, caller: &dyn Caller) -> Result<SetStat, Errno> {
        let set = self.set_of_size(id)?;
        let stat = self.set_row(&set)?;
        stat.permission.allow(caller, READ)?;
        Ok(stat)
    }

    /// SEM_STAT (`any` false) and SEM_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<SetStat, Errno> {
        let id = self.id_at(Kind::Semaphore, index)?;
        let stat = self.set_row(&self.set_of_size(id)?)?;
        if !any {
            stat.permission.allow(caller, READ)?;
        }
        Ok(stat)
    }

    fn set_row(&self, set: &Set) -> Result<SetStat, Errno> {
        let map = self.pool().map();
        let read = || -> Verdict<SetStat> {
            Ok(Ok(SetStat {
                id: Place { index: set.index, sequence: set.sequence }.id(),
                permission: Permission::read(map, set.slot)?,
                count: set.count,
                operated: load_value(map, field!(set.slot, SemSlot, operated))?,
                changed: load_value(map, field!(set.slot, ObjectHeader, changed))?,
            }))
        };
        settle(read())
    }

    /// SEM_INFO.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn sem_info(&self) -> Result<SemInfo, Errno> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let count = || -> Verdict<SemInfo> {
            let sets = load_value(map, per_kind!(layout, in_use, Kind::Semaphore))?;
            let high = load_value(map, per_kind!(layout, high_water, Kind::Semaphore))?;
            let (mut semaphores, mut highest) = (0u32, 0);
            for index in 0..high.min(layout.sem.count as u32) {
                let slot = registry::slot_at(layout, Kind::Semaphore, index)?;
                if registry::standing(map, slot)?.is(ObjectState::Live) {
                    let count = load_value(map, field!(slot, SemSlot, count))?;
                    semaphores = semaphores.saturating_add(count);
                    highest = index;
                }
            }
            Ok(Ok(SemInfo { sets, semaphores, highest }))
        };
        settle(count())
    }
}

/// The line of sleepers of the set in a slot.
pub(crate) fn line_of(slot: u64) -> Line {
    Line {
        head: field!(slot, SemSlot, wait_head),
        tail: field!(slot, SemSlot, wait_tail),
        lock: field!(slot, ObjectHeader, lock),
        length: Some(field!(slot, SemSlot, waiting)),
    }
}

/// Who last operated, for listings.
pub(crate) fn last_operator(map: &Map, set: &Set) -> Result<Party, Fault> {
    Ok(Party::unpack(Word::unpack(map.load(set.word(0)?, Ordering::Relaxed)?).party))
}

/// The cell that counts the sleepers of the set in a slot.
pub(crate) fn waiting_of(slot: u64) -> u64 {
    field!(slot, SemSlot, waiting)
}
