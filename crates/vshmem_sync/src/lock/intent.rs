//! The intent record: all writes of one change, collected first.

use arrayvec::ArrayVec;
use vshmem_mem::{Ordering, Scratch};
use vshmem_wire::{
    CELL_BYTES, Cell, LOG_ENTRIES, LogEntry, LogHead, MORE_LOG_ENTRIES, ThreadSlot, WORD_BYTES,
};

use crate::{Desk, Fault, crash_point, field, load_cell, load_word};

/// Where the part of a long record that does not fit into the thread slot lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overflow {
    pub offset: u64,
    pub entries: usize,
}

/// One change under a lock: reads see its own writes, and nothing is visible to others before it
/// commits.
#[derive(Debug)]
pub struct Txn<'a> {
    desk: Desk<'a>,
    near: ArrayVec<LogEntry, LOG_ENTRIES>,
    far: Option<Scratch<LogEntry>>,
    far_used: usize,
    overflow: Option<Overflow>,
    /// Words looked at since the change was begun.
    steps: u32,
}

/// Words that one change may look at. Honest ones stay far below; a change that goes round in
/// tables that a peer has tied together ends here.
const MOST_STEPS: u32 = 1 << 27;

impl<'a> Txn<'a> {
    #[inline]
    pub(crate) fn new(desk: Desk<'a>) -> Self {
        Self { desk, near: ArrayVec::new(), far: None, far_used: 0, overflow: None, steps: 0 }
    }

    /// Makes room for more entries than the thread slot holds.
    pub(crate) fn lengthen(&mut self, room: Overflow) -> Result<(), Fault> {
        self.far = Some(Scratch::new(room.entries).ok_or(Fault::TooLong)?);
        self.overflow = Some(room);
        Ok(())
    }

    /// The pool and the slot.
    #[must_use]
    pub fn desk(&self) -> &Desk<'a> {
        &self.desk
    }

    /// How many more words this change can write.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.near.remaining_capacity() + self.overflow.map_or(0, |o| o.entries - self.far_used)
    }

    #[inline]
    fn staged(&mut self, offset: u64) -> Option<&mut LogEntry> {
        self.steps = self.steps.saturating_add(1 + (self.far_used / 64) as u32);
        // Newest first: what was written last is most likely to be asked for.
        if let Some(far) = &mut self.far
            && let Some(at) =
                far.values()[..self.far_used].iter().rposition(|entry| entry.offset == offset)
        {
            return Some(&mut far.values()[at]);
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
            return Err(Fault::corrupt(0, "tables in which a change has no end"));
        }
        Ok(())
    }

    /// The cell at `offset`, as this change would leave it.
    ///
    /// # Errors
    /// When it is outside the pool, or this change has looked at more words than any needs.
    #[inline]
    pub fn cell(&mut self, offset: u64) -> Result<Cell, Fault> {
        self.step(0)?;
        match self.staged(offset) {
            Some(entry) => Ok(before(entry).successor(entry.new)),
            None => load_cell(self.desk.map, offset),
        }
    }

    /// Whether this change has written the cell at `offset`.
    #[must_use]
    pub fn has_written(&mut self, offset: u64) -> bool {
        self.staged(offset).is_some()
    }

    /// The word of the cell at `offset`, as this change would leave it.
    ///
    /// # Errors
    /// As [`Txn::cell`].
    #[inline]
    pub fn get_word(&mut self, offset: u64) -> Result<u64, Fault> {
        self.step(0)?;
        match self.staged(offset) {
            Some(entry) => Ok(entry.new),
            None => load_word(self.desk.map, offset),
        }
    }

    /// The number of 32 bits in the cell at `offset`, as this change would leave it.
    ///
    /// # Errors
    /// As [`Txn::cell`].
    #[inline]
    pub fn get(&mut self, offset: u64) -> Result<u32, Fault> {
        Ok(self.get_word(offset)? as u32)
    }

    /// As [`Txn::replace`], for a cell that this change has not written yet: does not look.
    ///
    /// # Errors
    /// When the record is full.
    pub fn replace_first(&mut self, offset: u64, old: Cell, word: u64) -> Result<(), Fault> {
        self.push(LogEntry { offset, old: old.word, tag: old.tag, new: word })
    }

    /// Writes `word` into the cell at `offset`, which was `old` before this change.
    ///
    /// # Errors
    /// When the record is full.
    #[inline]
    pub fn replace(&mut self, offset: u64, old: Cell, word: u64) -> Result<(), Fault> {
        if let Some(entry) = self.staged(offset) {
            entry.new = word;
            return Ok(());
        }
        self.replace_first(offset, old, word)
    }

    #[inline]
    fn push(&mut self, entry: LogEntry) -> Result<(), Fault> {
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
    pub fn set_word(&mut self, offset: u64, word: u64) -> Result<(), Fault> {
        if let Some(entry) = self.staged(offset) {
            entry.new = word;
            return Ok(());
        }
        let old = load_cell(self.desk.map, offset)?;
        self.replace_first(offset, old, word)
    }

    /// Writes a number of 32 bits into a cell.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn set(&mut self, offset: u64, value: u32) -> Result<(), Fault> {
        self.set_word(offset, value.into())
    }

    /// Writes a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set`].
    #[inline]
    pub fn update(&mut self, offset: u64, value: u32) -> Result<(), Fault> {
        if self.get(offset)? == value { Ok(()) } else { self.set(offset, value) }
    }

    /// Writes a word into a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set_word`].
    #[inline]
    pub fn update_word(&mut self, offset: u64, word: u64) -> Result<(), Fault> {
        if self.get_word(offset)? == word { Ok(()) } else { self.set_word(offset, word) }
    }

    /// Forgets everything staged: for a refusal that comes late.
    pub fn clear(&mut self) {
        self.near.clear();
        self.far_used = 0;
        self.steps = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Lays the record open in the thread slot. Nobody acts on it before the lock says
    /// *committed*, with this tag.
    #[inline]
    pub(crate) fn write_record(&mut self, lock: u64, committed: u64) -> Result<(), Fault> {
        let map = self.desk.map;
        let slot = self.desk.slot_at(self.desk.slot)?;
        close_record(map, slot)?;
        let mut at = field!(slot, ThreadSlot, log);
        for entry in &self.near {
            write_entry(map, at, entry)?;
            at += size_of::<LogEntry>() as u64;
        }
        if let (Some(far), Some(room)) = (&mut self.far, self.overflow) {
            let mut at = room.offset;
            for entry in &far.values()[..self.far_used] {
                write_entry(map, at, entry)?;
                at += size_of::<LogEntry>() as u64;
            }
            map.store(field!(slot, ThreadSlot, log_more), room.offset, Ordering::Relaxed)?;
        }
        let entries = (self.near.len() + self.far_used) as u64;
        map.store(field!(slot, ThreadSlot, log_lock), lock, Ordering::Relaxed)?;
        let head = LogHead { tag: committed, entries }.pack();
        map.store(field!(slot, ThreadSlot, log_head), head, Ordering::Release)?;
        Ok(())
    }

    /// Carries out this process's own record, from the private copy.
    #[inline]
    pub(crate) fn apply(&mut self, change: &'static str) -> Result<(), Fault> {
        let half = self.near.len() / 2;
        for (index, entry) in self.near.iter().enumerate() {
            if index == half {
                crash_point(change, "half-applied");
            }
            // Refused only when somebody has helped already.
            self.desk.map.replace_cell(entry.offset, before(entry), entry.new)?;
        }
        if let Some(far) = &mut self.far {
            for entry in &far.values()[..self.far_used] {
                self.desk.map.replace_cell(entry.offset, before(entry), entry.new)?;
            }
        }
        Ok(())
    }
}

/// What the cell of an entry holds before the change.
#[inline]
fn before(entry: &LogEntry) -> Cell {
    Cell { word: entry.old, tag: entry.tag }
}

/// Makes the record of a thread slot invalid, before any of its words is overwritten: somebody who
/// still carries it out must see that. Pairs with the fence in [`carry_out`].
pub(crate) fn close_record(map: &vshmem_mem::Map, slot: u64) -> Result<(), Fault> {
    map.store(field!(slot, ThreadSlot, log_head), 0, Ordering::Relaxed)?;
    vshmem_mem::fence(Ordering::Release);
    Ok(())
}

/// `None` when it does not lie in the pool.
fn read_entry(map: &vshmem_mem::Map, at: u64) -> Option<LogEntry> {
    let word = |nth: u64| map.load(at.checked_add(nth * WORD_BYTES)?, Ordering::Relaxed).ok();
    Some(LogEntry { offset: word(0)?, old: word(1)?, tag: word(2)?, new: word(3)? })
}

#[inline]
fn write_entry(map: &vshmem_mem::Map, at: u64, entry: &LogEntry) -> Result<(), Fault> {
    for (nth, word) in [entry.offset, entry.old, entry.tag, entry.new].into_iter().enumerate() {
        map.store(at + nth as u64 * WORD_BYTES, word, Ordering::Relaxed)?;
    }
    Ok(())
}

/// Carries out the committed record of another thread slot, for the given lock, which has been committed with `tag`.
///
/// A record that has been overwritten meanwhile is left alone: its owner only starts a new one
/// after it has carried out the old one itself. One that cannot be (a peer wrote it) is nobody's
/// change: what can be read of it is carried out inside the pool, and the lock goes on.
pub(crate) fn carry_out(desk: &Desk<'_>, owner: u32, lock: u64, tag: u64) -> Result<(), Fault> {
    let map = desk.map;
    let Ok(slot) = desk.slot_at(owner) else { return Ok(()) };
    let head_at = field!(slot, ThreadSlot, log_head);
    let lock_at = field!(slot, ThreadSlot, log_lock);
    let head = map.load(head_at, Ordering::Acquire)?;
    let Some(count) = LogHead::entries_for(head, tag) else { return Ok(()) };
    if map.load(lock_at, Ordering::Relaxed)? != lock {
        return Ok(());
    }
    let more = map.load(field!(slot, ThreadSlot, log_more), Ordering::Relaxed)?;
    let near = LOG_ENTRIES as u64;
    for index in 0..count.min(near + MORE_LOG_ENTRIES as u64) {
        let at = if index < near {
            Some(field!(slot, ThreadSlot, log) + index * size_of::<LogEntry>() as u64)
        } else {
            more.checked_add((index - near) * size_of::<LogEntry>() as u64)
        };
        let Some(entry) = at.and_then(|at| read_entry(map, at)) else { return Ok(()) };
        // Pairs with the release fence in `write_record`: if a word of a newer record was read
        // above, then the head read now is no longer the one that was checked. It may be as long
        // and of the same tag, but then it is of another lock, whose offset was written
        // before it. (A third record, of this lock again, has another tag.)
        vshmem_mem::fence(Ordering::Acquire);
        let same = map.load(head_at, Ordering::Acquire)? == head
            && map.load(lock_at, Ordering::Relaxed)? == lock;
        if !same {
            return Ok(());
        }
        let allowed = entry.offset >= vshmem_wire::PAGE_BYTES && entry.offset < desk.words_end;
        if allowed && entry.offset.is_multiple_of(CELL_BYTES) {
            map.replace_cell(entry.offset, before(&entry), entry.new)?;
        }
    }
    Ok(())
}
