//! The intent record: all writes of one change, collected first; then laid open in the thread slot,
//! committed and carried out, by its owner or by the thread that takes the lock over.

use arrayvec::ArrayVec;
use vshmem_mem::{Map, Ordering, Scratch};
use vshmem_wire::{
    CELL_BYTES, Cell, INTENT_ENTRIES, IntentEntry, IntentHead, MORE_INTENT_ENTRIES, Place, RawCell,
    State, StateCell, ThreadSlot, field,
};

use super::context::LockContext;
use super::word::{COMMITTED, FREE, in_state};
use crate::cell::{load_cell, load_word};
use crate::crash::crash_point;
use crate::fault::Fault;

/// Where the part of a long record that does not fit into the thread slot lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overflow {
    pub first: Place<IntentEntry>,
    pub entries: usize,
}

/// One change under a lock: reads see its own writes, and nothing is visible to others before it
/// commits.
#[derive(Debug)]
pub struct Txn<'a> {
    lock_context: LockContext<'a>,
    near: ArrayVec<IntentEntry, INTENT_ENTRIES>,
    far: Option<Scratch<IntentEntry>>,
    far_used: usize,
    overflow: Option<Overflow>,
    /// Words looked at since the change was begun.
    steps: u32,
    /// What was written beside the change, and stays if that is dropped.
    written_aside: u64,
}

/// Words that one change may read. A correct change reads far fewer; the limit ends one that
/// follows a cycle which a hostile peer has made.
const MOST_STEPS: u32 = 1 << 27;

impl<'a> Txn<'a> {
    #[inline]
    pub(super) fn new(lock_context: LockContext<'a>) -> Self {
        Self {
            lock_context,
            near: ArrayVec::new(),
            far: None,
            far_used: 0,
            overflow: None,
            steps: 0,
            written_aside: 0,
        }
    }

    /// Makes room for more entries than the thread slot holds.
    pub(super) fn lengthen(&mut self, room: Overflow) -> Result<(), Fault> {
        if room.entries > MORE_INTENT_ENTRIES {
            return Err(Fault::Misuse("an intent record with more entries than others carry out"));
        }
        self.far = Some(Scratch::new(room.entries).ok_or(Fault::TooLong)?);
        self.overflow = Some(room);
        Ok(())
    }

    /// The pool and the slot.
    #[must_use]
    pub fn lock_context(&self) -> &LockContext<'a> {
        &self.lock_context
    }

    /// How many more words this change can write.
    #[must_use]
    #[inline]
    pub fn remaining_entries(&self) -> usize {
        self.near.remaining_capacity() + self.overflow.map_or(0, |o| o.entries - self.far_used)
    }

    #[inline]
    fn staged(&mut self, at: Place<RawCell>) -> Option<&mut IntentEntry> {
        let offset = at.offset();
        self.steps = self.steps.saturating_add(1 + (self.far_used / 64) as u32);
        // Newest first: what was written last is most likely to be asked for.
        if let Some(far) = &mut self.far
            && let Some(nth) =
                far.values()[..self.far_used].iter().rposition(|entry| entry.offset == offset)
        {
            return Some(&mut far.values()[nth]);
        }
        self.near.iter_mut().rev().find(|entry| entry.offset == offset)
    }

    /// Counts `words` that the change looks at past [`Txn::cell`].
    ///
    /// # Errors
    /// When it has looked at more than any change needs.
    #[inline]
    pub fn step(&mut self, words: u32) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(words);
        if self.steps > MOST_STEPS {
            return Err(Fault::corrupt(0u64, "tables in which a change has no end"));
        }
        Ok(())
    }

    /// The cell `at`, as this change would leave it.
    ///
    /// # Errors
    /// When it is outside the pool, or this change has looked at more words than any needs.
    #[inline]
    pub fn cell(&mut self, at: Place<RawCell>) -> Result<Cell, Fault> {
        self.step(0)?;
        match self.staged(at) {
            Some(entry) => Ok(before(entry).successor(entry.new)),
            None => load_cell(self.lock_context.map, at),
        }
    }

    /// Whether this change has written the cell `at`.
    #[must_use]
    pub fn has_written(&mut self, at: Place<RawCell>) -> bool {
        self.staged(at).is_some()
    }

    /// The word of the cell `at`, as this change would leave it.
    ///
    /// # Errors
    /// As [`Txn::cell`].
    #[inline]
    pub fn get_word(&mut self, at: Place<RawCell>) -> Result<u64, Fault> {
        self.step(0)?;
        match self.staged(at) {
            Some(entry) => Ok(entry.new),
            None => load_word(self.lock_context.map, at),
        }
    }

    /// The number of 32 bits in the cell `at`, as this change would leave it.
    ///
    /// # Errors
    /// As [`Txn::cell`].
    #[inline]
    pub fn get(&mut self, at: Place<RawCell>) -> Result<u32, Fault> {
        Ok(self.get_word(at)? as u32)
    }

    /// The state in the cell `at`, as this change would leave it; `None` when it is none.
    ///
    /// # Errors
    /// As [`Txn::cell`].
    #[inline]
    pub fn state<S: State>(&mut self, at: Place<StateCell<S>>) -> Result<Option<S>, Fault> {
        self.get(at.cell()).map(S::of)
    }

    /// Writes a state into a cell.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn set_state<S: State>(&mut self, at: Place<StateCell<S>>, state: S) -> Result<(), Fault> {
        self.set(at.cell(), state.number())
    }

    /// Writes a state into a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn update_state<S: State>(
        &mut self,
        at: Place<StateCell<S>>,
        state: S,
    ) -> Result<(), Fault> {
        self.update(at.cell(), state.number())
    }

    /// As [`Txn::replace`], for a cell that this change has not written yet: does not look.
    ///
    /// # Errors
    /// When the record is full.
    pub fn replace_first(&mut self, at: Place<RawCell>, old: Cell, word: u64) -> Result<(), Fault> {
        self.push(IntentEntry { offset: at.offset(), old: old.word, tag: old.tag, new: word })
    }

    /// Writes `word` into the cell `at`, which was `old` before this change.
    ///
    /// # Errors
    /// When the record is full.
    #[inline]
    pub fn replace(&mut self, at: Place<RawCell>, old: Cell, word: u64) -> Result<(), Fault> {
        if let Some(entry) = self.staged(at) {
            entry.new = word;
            return Ok(());
        }
        self.replace_first(at, old, word)
    }

    #[inline]
    fn push(&mut self, entry: IntentEntry) -> Result<(), Fault> {
        if self.near.try_push(entry).is_ok() {
            return Ok(());
        }
        match (&mut self.far, self.overflow) {
            (Some(far), Some(room)) if self.far_used < room.entries => {
                far.values()[self.far_used] = entry;
                self.far_used += 1;
                Ok(())
            }
            _ => Err(Fault::TooLong),
        }
    }

    /// Writes a word into a cell.
    ///
    /// # Errors
    /// When it is outside the pool, or the record is full.
    #[inline]
    pub fn set_word(&mut self, at: Place<RawCell>, word: u64) -> Result<(), Fault> {
        if let Some(entry) = self.staged(at) {
            entry.new = word;
            return Ok(());
        }
        let old = load_cell(self.lock_context.map, at)?;
        self.replace_first(at, old, word)
    }

    /// Writes a number of 32 bits into a cell.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn set(&mut self, at: Place<RawCell>, value: u32) -> Result<(), Fault> {
        self.set_word(at, value.into())
    }

    /// Writes a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set`].
    #[inline]
    pub fn update(&mut self, at: Place<RawCell>, value: u32) -> Result<(), Fault> {
        self.update_unless(at, value.into(), |before| before as u32 == value)
    }

    /// Writes a word into a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn update_word(&mut self, at: Place<RawCell>, word: u64) -> Result<(), Fault> {
        self.update_unless(at, word, |before| before == word)
    }

    /// Writes a word into a cell, looking for it once, unless its word is as it is to be.
    #[inline]
    fn update_unless(
        &mut self,
        at: Place<RawCell>,
        word: u64,
        is_same: impl Fn(u64) -> bool,
    ) -> Result<(), Fault> {
        self.step(0)?;
        if let Some(entry) = self.staged(at) {
            if !is_same(entry.new) {
                entry.new = word;
            }
            return Ok(());
        }
        let old = load_cell(self.lock_context.map, at)?;
        if is_same(old.word) { Ok(()) } else { self.replace_first(at, old, word) }
    }

    /// How many cells between two places this change writes.
    pub fn writes_within(&mut self, range: std::ops::Range<Place<RawCell>>) -> u64 {
        let range = range.start.offset()..range.end.offset();
        let is_within = |entry: &&IntentEntry| range.contains(&entry.offset);
        let near = self.near.iter().filter(is_within).count();
        let far = self
            .far
            .as_mut()
            .map_or(0, |far| far.values()[..self.far_used].iter().filter(is_within).count());
        (near + far) as u64
    }

    /// Notes a write that was made beside the change, and is not dropped with it.
    pub fn note_written_aside(&mut self) {
        self.written_aside += 1;
    }

    /// How many such writes there were since this was last asked.
    pub fn take_written_aside(&mut self) -> u64 {
        std::mem::take(&mut self.written_aside)
    }

    /// Forgets everything staged, and goes on: for a change that finds late that part of it cannot
    /// be. One that is to fail is abandoned ([`Decision::Abandon`](super::decision::Decision)).
    pub fn clear(&mut self) {
        self.near.clear();
        self.far_used = 0;
        self.steps = 0;
    }

    /// Commits, carries out, releases `lock`, which was `held`. False when it was
    /// lost before the commit.
    pub(super) fn finish(
        &mut self,
        lock: Place<RawCell>,
        held: Cell,
        change: &'static str,
    ) -> Result<bool, Fault> {
        let map = self.lock_context.map;
        let free = in_state(held, FREE);
        if self.near.is_empty() {
            return Ok(map.replace_cell(lock, held, free)?);
        }
        let committed = held.successor(in_state(held, COMMITTED));
        self.write_record(lock, committed.tag)?;
        crash_point(change, "written");
        // Barrier COMMIT: releases the record. Pairs with the acquire of the lock's cell in
        // `acquire_contended`.
        if !map.replace_cell(lock, held, committed.word)? {
            return Ok(false);
        }
        crash_point(change, "committed");
        self.apply(change)?;
        crash_point(change, "applied");
        // Refused only if another thread took over after the commit. That one has carried the
        // record out, and the lock is not this thread's to release.
        // Barrier HAND-OVER: pairs with the acquire of the lock's cell in `acquire`.
        map.replace_cell(lock, committed, free)?;
        crash_point(change, "released");
        Ok(true)
    }

    /// Lays the record open in the thread slot: the entries `near` there, and those that are `far`
    /// at `more_intents`. No thread acts on it before the lock says *committed*, with this
    /// tag.
    #[inline]
    fn write_record(&mut self, lock: Place<RawCell>, committed: u64) -> Result<(), Fault> {
        let map = self.lock_context.map;
        let slot = self.lock_context.threads.row(self.lock_context.slot)?;
        close_record(map, slot)?;
        write_entries(map, field!(slot, ThreadSlot, intents).first(), &self.near)?;
        let mut entries = self.near.len();
        if let (Some(far), Some(Overflow { first, .. })) = (&mut self.far, self.overflow) {
            let far = &far.values()[..self.far_used];
            write_entries(map, first, far)?;
            map.store(field!(slot, ThreadSlot, more_intents), first.offset(), Ordering::Relaxed)?;
            entries += far.len();
        }
        map.store(field!(slot, ThreadSlot, intent_lock), lock.offset(), Ordering::Relaxed)?;
        let head = IntentHead { tag: committed, entries: entries as u64 }.pack();
        // Part of COMMIT: pairs with the acquire of the head in `carry_out`.
        map.store(field!(slot, ThreadSlot, intent_head), head, Ordering::Release)?;
        Ok(())
    }

    /// Carries out this process's own record, from the private copy.
    #[inline]
    fn apply(&mut self, change: &'static str) -> Result<(), Fault> {
        let half = self.near.len() / 2;
        for (index, entry) in self.near.iter().enumerate() {
            if index == half {
                crash_point(change, "half-applied");
            }
            // Refused only when another thread has helped already.
            self.lock_context.map.replace_cell(entry.offset, before(entry), entry.new)?;
        }
        if let Some(far) = &mut self.far {
            for entry in &far.values()[..self.far_used] {
                self.lock_context.map.replace_cell(entry.offset, before(entry), entry.new)?;
            }
        }
        Ok(())
    }
}

/// Makes the record of a thread slot invalid, before any of its words is overwritten: a thread that
/// still carries it out must see that. Barrier REWRITE: pairs with the fence in [`carry_out`].
pub(super) fn close_record(map: &Map, slot: Place<ThreadSlot>) -> Result<(), Fault> {
    map.store(field!(slot, ThreadSlot, intent_head), 0, Ordering::Relaxed)?;
    vshmem_mem::fence(Ordering::Release);
    Ok(())
}

#[inline]
fn write_entries(
    map: &Map,
    first: Place<IntentEntry>,
    entries: &[IntentEntry],
) -> Result<(), Fault> {
    for (nth, entry) in entries.iter().enumerate() {
        write_entry(map, first.nth(nth as u64), entry)?;
    }
    Ok(())
}

#[inline]
fn write_entry(map: &Map, at: Place<IntentEntry>, entry: &IntentEntry) -> Result<(), Fault> {
    map.store(field!(at, IntentEntry, offset), entry.offset, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, old), entry.old, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, tag), entry.tag, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, new), entry.new, Ordering::Relaxed)?;
    Ok(())
}

/// What the cell of an entry holds before the change.
#[inline]
fn before(entry: &IntentEntry) -> Cell {
    Cell { word: entry.old, tag: entry.tag }
}

/// Carries out the committed record of another thread slot, for the given lock, which has been
/// committed with `tag`.
///
/// A record that has been overwritten meanwhile is left alone: its owner only starts a new one
/// after it has carried out the old one itself. A record that no honest client writes is not
/// refused: those of its entries that can be read are applied, inside the pool, and the lock is
/// released.
pub(super) fn carry_out(
    lock_context: &LockContext<'_>,
    owner: u32,
    lock: Place<RawCell>,
    tag: u64,
) -> Result<(), Fault> {
    let map = lock_context.map;
    let Ok(slot) = lock_context.threads.row(owner) else { return Ok(()) };
    let head_at = field!(slot, ThreadSlot, intent_head);
    let lock_at = field!(slot, ThreadSlot, intent_lock);
    let head = map.load(head_at, Ordering::Acquire)?;
    let Some(count) = IntentHead::entries_for(head, tag) else { return Ok(()) };
    if map.load(lock_at, Ordering::Relaxed)? != lock.offset() {
        return Ok(());
    }
    let more = Place::at(map.load(field!(slot, ThreadSlot, more_intents), Ordering::Relaxed)?);
    let near = INTENT_ENTRIES as u64;
    for index in 0..count.min(near + MORE_INTENT_ENTRIES as u64) {
        let at = if index < near {
            field!(slot, ThreadSlot, intents).element(index)
        } else {
            more.nth(index - near)
        };
        let Some(entry) = read_entry(map, at) else { return Ok(()) };
        // Pairs with REWRITE in `close_record`: if a word of a newer record was read
        // above, then the head read now is no longer the one that was checked. It may be as long
        // and of the same tag, but then it is of another lock, whose offset was written
        // before it. (A third record, of this lock again, has another tag.)
        vshmem_mem::fence(Ordering::Acquire);
        let same = map.load(head_at, Ordering::Acquire)? == head
            && map.load(lock_at, Ordering::Relaxed)? == lock.offset();
        if !same {
            return Ok(());
        }
        let allowed =
            entry.offset >= vshmem_wire::PAGE_BYTES && entry.offset < lock_context.words_end;
        if allowed && entry.offset.is_multiple_of(CELL_BYTES) {
            map.replace_cell(entry.offset, before(&entry), entry.new)?;
        }
    }
    Ok(())
}

/// Reads an entry of a record; `None` when it does not lie in the pool.
#[must_use]
pub fn read_entry(map: &Map, at: Place<IntentEntry>) -> Option<IntentEntry> {
    let word = |place: Place<u64>| map.load(place, Ordering::Relaxed).ok();
    Some(IntentEntry {
        offset: word(field!(at, IntentEntry, offset))?,
        old: word(field!(at, IntentEntry, old))?,
        tag: word(field!(at, IntentEntry, tag))?,
        new: word(field!(at, IntentEntry, new))?,
    })
}
