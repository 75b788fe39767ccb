//! The intent record: all writes of one change, collected first.

use arrayvec::ArrayVec;
use vshmem_mem::{Ordering, Scratch};
use vshmem_wire::{CELL_BYTES, Cell, LOG_ENTRIES, LogEntry, MORE_LOG_ENTRIES, ThreadSlot};

use crate::{Desk, Fault, crash_point, field, load_cell};

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

    /// Counts `words` that the change looks at past [`Txn::word`].
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

    /// The word at `offset`, as this change would leave it.
    ///
    /// # Errors
    /// When it is outside the pool, or this change has looked at more words than any needs.
    #[inline]
    pub fn word(&mut self, offset: u64) -> Result<u64, Fault> {
        self.step(0)?;
        match self.staged(offset) {
            Some(entry) => Ok(entry.new),
            None => load_cell(self.desk.map, offset),
        }
    }

    /// Whether this change has written the word at `offset`.
    #[must_use]
    pub fn has_written(&mut self, offset: u64) -> bool {
        self.staged(offset).is_some()
    }

    /// The value of the cell at `offset`, as this change would leave it.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn get(&mut self, offset: u64) -> Result<u32, Fault> {
        Ok(Cell::unpack(self.word(offset)?).value)
    }

    /// As [`Txn::replace`], for a word that this change has not written yet: does not look.
    ///
    /// # Errors
    /// When the record is full.
    pub fn replace_first(&mut self, offset: u64, old: u64, new: u64) -> Result<(), Fault> {
        self.push(LogEntry { offset, old, new })
    }

    /// Replaces the word at `offset`, which was `old` before this change, by `new`.
    ///
    /// # Errors
    /// When the record is full.
    #[inline]
    pub fn replace(&mut self, offset: u64, old: u64, new: u64) -> Result<(), Fault> {
        if let Some(entry) = self.staged(offset) {
            entry.new = new;
            return Ok(());
        }
        self.push(LogEntry { offset, old, new })
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

    /// Writes a cell.
    ///
    /// # Errors
    /// When it is outside the pool, or the record is full.
    #[inline]
    pub fn set(&mut self, offset: u64, value: u32) -> Result<(), Fault> {
        if let Some(entry) = self.staged(offset) {
            entry.new = Cell::successor(entry.old, value);
            return Ok(());
        }
        let old = load_cell(self.desk.map, offset)?;
        self.replace(offset, old, Cell::successor(old, value))
    }

    /// Writes a cell only if it differs.
    ///
    /// # Errors
    /// As [`Txn::set`].
    #[inline]
    pub fn update(&mut self, offset: u64, value: u32) -> Result<(), Fault> {
        if self.get(offset)? == value { Ok(()) } else { self.set(offset, value) }
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

    /// Lays the record open in the thread slot. Nobody acts on it before the lock word says
    /// *committed*.
    #[inline]
    pub(crate) fn write_record(&mut self, lock: u64, generation: u32) -> Result<(), Fault> {
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
        let count = (self.near.len() + self.far_used) as u64;
        map.store(field!(slot, ThreadSlot, log_lock), lock, Ordering::Relaxed)?;
        let head = (u64::from(generation) << 32) | count;
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
            self.desk.map.replace(entry.offset, entry.old, entry.new)?;
        }
        if let Some(far) = &mut self.far {
            for entry in &far.values()[..self.far_used] {
                self.desk.map.replace(entry.offset, entry.old, entry.new)?;
            }
        }
        Ok(())
    }
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
    let word = |nth: u64| map.load(at.checked_add(nth * 8)?, Ordering::Relaxed).ok();
    Some(LogEntry { offset: word(0)?, old: word(1)?, new: word(2)? })
}

#[inline]
fn write_entry(map: &vshmem_mem::Map, at: u64, entry: &LogEntry) -> Result<(), Fault> {
    map.store(at, entry.offset, Ordering::Relaxed)?;
    map.store(at + 8, entry.old, Ordering::Relaxed)?;
    map.store(at + 16, entry.new, Ordering::Relaxed)?;
    Ok(())
}

/// Carries out the committed record of another thread slot, for the given lock and generation.
///
/// A record that has been overwritten meanwhile is left alone: its owner only starts a new one
/// after it has carried out the old one itself. One that cannot be (a peer wrote it) is nobody's
/// change: what can be read of it is carried out inside the pool, and the lock goes on.
pub(crate) fn carry_out(
    desk: &Desk<'_>,
    owner: u32,
    lock: u64,
    generation: u32,
) -> Result<(), Fault> {
    let map = desk.map;
    let Ok(slot) = desk.slot_at(owner) else { return Ok(()) };
    let head_at = field!(slot, ThreadSlot, log_head);
    let lock_at = field!(slot, ThreadSlot, log_lock);
    let head = map.load(head_at, Ordering::Acquire)?;
    if (head >> 32) as u32 != generation || map.load(lock_at, Ordering::Relaxed)? != lock {
        return Ok(());
    }
    let count = head & 0xffff_ffff;
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
        // and of the same generation, but then it is of another lock, whose offset was written
        // before it. (A third record, of this lock again, has another generation.)
        vshmem_mem::fence(Ordering::Acquire);
        let same = map.load(head_at, Ordering::Acquire)? == head
            && map.load(lock_at, Ordering::Relaxed)? == lock;
        if !same {
            return Ok(());
        }
        let allowed = entry.offset >= vshmem_wire::PAGE_BYTES && entry.offset < desk.words_end;
        if allowed && entry.offset.is_multiple_of(CELL_BYTES) {
            map.replace(entry.offset, entry.old, entry.new)?;
        }
    }
    Ok(())
}
