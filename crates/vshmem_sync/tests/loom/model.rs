//! What all models have in common: the pool, a process, and how orders of events are explored.

use std::mem::offset_of;
use std::sync::Arc;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, LockContext, SlotCache, Txn, load_value, with_lock};
use vshmem_wire::{Area, Cell, IntentEntry, PAGE_BYTES, Place, RawCell, ThreadSlot};

/// Thread slots lie in front, cells where a record may name them.
pub const THREADS: Area<ThreadSlot> = Area::new(0, 3);
pub const LOCK: Place<RawCell> = Place::at(PAGE_BYTES);
pub const OTHER_LOCK: Place<RawCell> = Place::at(PAGE_BYTES + 16);
pub const A: Place<RawCell> = Place::at(PAGE_BYTES + 32);
pub const B: Place<RawCell> = Place::at(PAGE_BYTES + 48);
pub const C: Place<RawCell> = Place::at(PAGE_BYTES + 64);
pub const D: Place<RawCell> = Place::at(PAGE_BYTES + 80);
pub const E: Place<RawCell> = Place::at(PAGE_BYTES + 96);
pub const F: Place<RawCell> = Place::at(PAGE_BYTES + 112);
pub const END: u64 = PAGE_BYTES + 128;

/// The pool as one process with one thread sees it.
pub struct Process {
    pub map: Arc<Map>,
    pub slot_cache: SlotCache,
    pub slot: u32,
}

impl Process {
    pub fn new(map: &Arc<Map>, slot: u32) -> Self {
        Self { map: Arc::clone(map), slot_cache: SlotCache::new(), slot }
    }

    pub fn change<'a, R>(
        &'a self,
        lock: Place<RawCell>,
        body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
    ) -> R {
        let lock_context = LockContext {
            map: &self.map,
            threads: THREADS,
            words_end: END,
            slot: self.slot,
            slot_cache: &self.slot_cache,
        };
        with_lock(lock_context, lock, "model", body).expect("a change")
    }

    /// Raises a cell.
    pub fn raise_one(&self, lock: Place<RawCell>, cell: Place<RawCell>) {
        self.change(lock, |txn| {
            let before = txn.get(cell)?;
            txn.set(cell, before + 1)
        });
    }

    /// Raises two cells, and says what they were.
    pub fn raise(&self, lock: Place<RawCell>, cells: [Place<RawCell>; 2]) -> [u32; 2] {
        self.change(lock, |txn| {
            let before = [txn.get(cells[0])?, txn.get(cells[1])?];
            txn.set(cells[0], before[0] + 1)?;
            txn.set(cells[1], before[1] + 1)?;
            Ok(before)
        })
    }
}

/// A pool without thread slots: cells alone.
pub fn cells(bytes: u64) -> Arc<Map> {
    Arc::new(Map::with_words(bytes as usize, |_| false))
}

/// A pool with thread slots, as far as locks and short intent records use them.
pub fn cells_and_slots() -> Arc<Map> {
    const ENTRIES: usize = 4;
    let record = offset_of!(ThreadSlot, intent_lock)
        ..offset_of!(ThreadSlot, intents) + ENTRIES * size_of::<IntentEntry>();
    let is_used = |at: u64| record.contains(&((at % size_of::<ThreadSlot>() as u64) as usize));
    Arc::new(Map::with_words(END as usize, is_used))
}

pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

pub fn value(map: &Map, at: Place<RawCell>) -> u32 {
    load_value(map, at).expect("a cell")
}

/// Says whether something still stands, by 0.
pub const STATE: Place<RawCell> = D;
/// The word that says how a process stands: anything but 0, and it may not go on.
pub const VALIDITY: Place<RawCell> = Place::at(PAGE_BYTES + 96);

/// What a message holds that comes to lie where cells were.
pub const TEXT: [u64; 2] = [0x0a21_6f6c_6c65_4800, 0];

pub fn become_text(map: &Map, at: Place<RawCell>) {
    map.store(at.word(), TEXT[0], Ordering::Relaxed).expect("a word");
    map.store(at.tag(), TEXT[1], Ordering::Relaxed).expect("a word");
}

pub fn is_text(map: &Map, at: Place<RawCell>) -> bool {
    map.load_cell(at).expect("a cell") == Cell { word: TEXT[0], tag: TEXT[1] }
}
