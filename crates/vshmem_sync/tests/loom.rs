//! Models of the locks, the records and the sleeping, run through every order of events that a few
//! preemptions can bring about.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p vshmem_sync --test loom`

#![cfg(loom)]

#[path = "loom/arrays.rs"]
mod arrays;

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{
    Desk, Fault, Held, HeldBy, Operated, Parked, Seats, Semaphore, Txn, UndoRecords, WaitWords,
    claim_word, holder_of, load_value, park, ring, with_lock,
};
use vshmem_wire::{Adjustment, Area, Cell, ClientName, Holding, PAGE_BYTES, SemWord, ThreadSlot};

/// Thread slots lie in front, cells where a record may name them.
const THREADS: Area = Area { offset: 0, stride: size_of::<ThreadSlot>() as u64, count: 3 };
const LOCK: u64 = PAGE_BYTES;
const OTHER_LOCK: u64 = PAGE_BYTES + 16;
const A: u64 = PAGE_BYTES + 32;
const B: u64 = PAGE_BYTES + 48;
const C: u64 = PAGE_BYTES + 64;
const D: u64 = PAGE_BYTES + 80;
const E: u64 = PAGE_BYTES + 96;
const F: u64 = PAGE_BYTES + 112;
const END: u64 = PAGE_BYTES + 128;

/// The pool as one process with one thread sees it.
struct Process {
    map: Arc<Map>,
    seats: Seats,
    slot: u32,
}

impl Process {
    fn new(map: &Arc<Map>, slot: u32) -> Self {
        Self { map: Arc::clone(map), seats: Seats::new(), slot }
    }

    fn change<'a, R>(&'a self, lock: u64, body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>) -> R {
        let desk = Desk {
            map: &self.map,
            threads: THREADS,
            words_end: END,
            slot: self.slot,
            seats: &self.seats,
        };
        with_lock(desk, lock, "model", body).expect("a change")
    }

    /// Raises a cell.
    fn raise_one(&self, lock: u64, cell: u64) {
        self.change(lock, |txn| {
            let before = txn.get(cell)?;
            txn.set(cell, before + 1)
        });
    }

    /// Raises two cells, and says what they were.
    fn raise(&self, lock: u64, cells: [u64; 2]) -> [u32; 2] {
        self.change(lock, |txn| {
            let before = [txn.get(cells[0])?, txn.get(cells[1])?];
            txn.set(cells[0], before[0] + 1)?;
            txn.set(cells[1], before[1] + 1)?;
            Ok(before)
        })
    }
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

fn value(map: &Map, at: u64) -> u32 {
    load_value(map, at).expect("a cell")
}

#[test]
fn a_change_happens_once_whoever_takes_the_lock_over() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (one, two) = (Process::new(&map, 0), Process::new(&map, 1));
        let other = thread::spawn(move || two.raise(LOCK, [A, B]));
        let mine = one.raise(LOCK, [A, B]);
        let theirs = other.join().expect("a thread");
        assert_eq!(mine[0], mine[1]);
        assert_eq!(theirs[0], theirs[1]);
        assert_eq!(mine[0] + theirs[0], 1, "one of them came first");
        assert_eq!((value(&map, A), value(&map, B)), (2, 2));
    });
}

#[test]
fn two_may_take_over_from_a_third() {
    explore(2, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let others: Vec<_> = (1..3)
            .map(|slot| {
                let process = Process::new(&map, slot);
                thread::spawn(move || process.raise(LOCK, [A, B]))
            })
            .collect();
        let one = Process::new(&map, 0);
        let mut seen = vec![one.raise(LOCK, [A, B])];
        seen.extend(others.into_iter().map(|other| other.join().expect("a thread")));
        seen.sort_unstable();
        assert_eq!(seen, [[0, 0], [1, 1], [2, 2]]);
        assert_eq!((value(&map, A), value(&map, B)), (3, 3));
    });
}

#[test]
fn a_record_is_not_carried_out_for_another_lock_or_after_its_time() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (one, two) = (Process::new(&map, 0), Process::new(&map, 1));
        // Whoever carries out the first record may still be at it when its slot has the second,
        // and would make a change of it that never was committed.
        let both = |process: &Process| {
            process.raise_one(LOCK, A);
            process.raise_one(OTHER_LOCK, C);
        };
        let other = thread::spawn(move || both(&two));
        both(&one);
        other.join().expect("a thread");
        assert_eq!((value(&map, A), value(&map, C)), (2, 2));
    });
}

#[test]
fn a_late_change_is_not_carried_out_in_memory_that_was_given_away() {
    // Two raise a cell as long as it is there; the third gives it away, and it becomes text.
    explore(2, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let raise = |process: &Process| {
            process.change(LOCK, |txn| {
                let stands = txn.get(STATE)? == 0;
                if stands {
                    let before = txn.get(C)?;
                    txn.set(C, before + 1)?;
                    txn.set(B, before + 1)?;
                }
                Ok(u32::from(stands))
            })
        };
        let others = [1, 2].map(|slot| {
            let process = Process::new(&map, slot);
            thread::spawn(move || raise(&process))
        });
        Process::new(&map, 0).change(LOCK, |txn| txn.set(STATE, 1));
        become_text(&map, C);
        let raised: u32 = others.map(|other| other.join().expect("a thread")).iter().sum();
        assert!(is_text(&map, C), "overwritten");
        assert_eq!(value(&map, B), raised);
    });
}

/// A cell that also has a fast way: one compare-and-swap without the lock, as a semaphore's.
mod fast {
    use super::*;

    pub const SLOW: u32 = 1 << 15;

    fn replace(map: &Map, seen: Cell, value: u32) -> bool {
        map.replace_cell(A, seen, value.into()).expect("a cell")
    }

    /// One up without the lock; false when the way is closed.
    pub fn up(map: &Map) -> bool {
        loop {
            let seen = map.load_cell(A).expect("a cell");
            let value = seen.value();
            if value & SLOW != 0 {
                return false;
            }
            if replace(map, seen, value + 1) {
                return true;
            }
        }
    }

    /// Closes the way and returns the cell and the value.
    pub fn close(txn: &mut Txn<'_>) -> Result<(Cell, u32), Fault> {
        loop {
            let seen = txn.cell(A)?;
            let value = seen.value();
            if value & SLOW != 0 {
                return Ok((seen, value & !SLOW));
            }
            if replace(txn.desk().map, seen, value | SLOW) {
                return Ok((seen.successor((value | SLOW).into()), value));
            }
        }
    }
}

#[test]
fn a_fast_operation_and_a_change_under_the_lock_both_count() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (one, two) = (Process::new(&map, 0), Process::new(&map, 1));
        let slow = |process: &Process| {
            process.change(LOCK, |txn| {
                let (cell, value) = fast::close(txn)?;
                txn.replace(A, cell, (value + 1).into())
            });
        };
        let other = thread::spawn(move || {
            if !fast::up(&two.map) {
                two.change(LOCK, |txn| {
                    let (cell, value) = fast::close(txn)?;
                    txn.replace(A, cell, (value + 1).into())
                });
            }
        });
        slow(&one);
        other.join().expect("a thread");
        assert_eq!(value(&map, A), 2);
    });
}

#[test]
fn nobody_lies_down_past_a_fast_rise() {
    // One wants a token and lies down when there is none; the other brings one. In the end either
    // it has the token, or it was told to try again.
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (sleeper, riser) = (Process::new(&map, 0), Process::new(&map, 1));
        let other = thread::spawn(move || {
            if !fast::up(&riser.map) {
                riser.change(LOCK, |txn| {
                    let (cell, value) = fast::close(txn)?;
                    let waits = txn.get(B)? == 1;
                    txn.update(B, if waits { 2 } else { 0 })?;
                    txn.replace(A, cell, (value + 1).into())
                });
            }
        });
        let took = sleeper.change(LOCK, |txn| {
            let (cell, value) = fast::close(txn)?;
            if value == 0 {
                // The way stays closed.
                txn.set(B, 1)?;
                return Ok(false);
            }
            txn.replace(A, cell, (value - 1).into())?;
            Ok(true)
        });
        other.join().expect("a thread");
        let left = value(&map, A) & !fast::SLOW;
        if took {
            assert_eq!((left, value(&map, B)), (0, 0));
        } else {
            assert_eq!((left, value(&map, B)), (1, 2), "asleep beside a token");
        }
    });
}

#[test]
fn a_sleeper_is_never_missed() {
    explore(4, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let words = Arc::new(WaitWords::new(Arc::new(Map::anonymous(16)), 0, 4));
        let waker = {
            let (map, words) = (Arc::clone(&map), Arc::clone(&words));
            thread::spawn(move || {
                let seen = map.load_cell(A).expect("a cell");
                assert!(map.replace_cell(A, seen, 1).expect("a cell"));
                ring(&words, 0).expect("a ring");
            })
        };
        let changed = || map.load(A, Ordering::SeqCst).expect("a cell") as u32 == 1;
        loop {
            let parked = park(&words, 0, None, Duration::from_secs(1), None, 0, changed);
            if parked.expect("a wait") == Parked::Changed {
                break;
            }
        }
        waker.join().expect("a thread");
    });
}

/// A semaphore at A; the adjustment of undo record 1 is at B, that of record 2 at C.
struct Records;

impl UndoRecords for Records {
    fn stand(&self) -> Result<bool, Fault> {
        Ok(true)
    }

    fn adjustment(&self, record: u32) -> Result<Option<u64>, Fault> {
        Ok(Some(adjustment_of(record)))
    }

    fn operator(&self, record: u32) -> Result<u32, Fault> {
        Ok(record + 100)
    }
}

fn adjustment_of(record: u32) -> u64 {
    if record == 1 { B } else { C }
}

fn semaphore(map: &Map) -> Semaphore<'_, Records> {
    Semaphore { map, at: A, array: D, records: Records }
}

/// Up by `change`, with SEM_UNDO; false when the fast way is closed.
fn up_undoably(map: &Map, record: u32, change: i16) -> bool {
    let at = adjustment_of(record);
    let done = semaphore(map).operate_undoable(change, 100, record, at, || Ok(true));
    match done.expect("an operation") {
        Operated::Done => true,
        Operated::Closed => false,
        other => panic!("{other:?}"),
    }
}

/// What the burials of both records' owners leave of the value.
fn buried(map: &Map) -> i32 {
    let mut value = 0;
    for record in [1, 2] {
        let at = adjustment_of(record);
        let closed = semaphore(map).close_adjustment(record, at).expect("an adjustment");
        semaphore(map).forget(record).expect("a semaphore");
        value += i32::from(Adjustment::unpack(closed.word).total);
    }
    let (word, _) = semaphore(map).read().expect("a semaphore");
    assert!(!word.undo);
    value + word.value as i32
}

#[test]
fn adjustments_of_two_clients_add_up() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let two = Arc::clone(&map);
        assert!(up_undoably(&map, 1, 5));
        let other = thread::spawn(move || {
            assert!(up_undoably(&two, 2, 3));
            semaphore(&two).operate(1, 100, 7, || Ok(true)).expect("an operation");
        });
        assert!(up_undoably(&map, 1, 7));
        assert!(up_undoably(&map, 1, -2));
        other.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, 14);
        assert_eq!(buried(&map), 1);
    });
}

#[test]
fn two_threads_of_a_client_share_an_adjustment() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let two = Arc::clone(&map);
        let other = thread::spawn(move || assert!(up_undoably(&two, 1, 3)));
        assert!(up_undoably(&map, 1, 5));
        assert!(up_undoably(&map, 1, 5));
        other.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, 13);
        assert_eq!(buried(&map), 0);
    });
}

#[test]
fn a_thread_never_takes_an_operation_of_another_for_its_own() {
    // Two threads of one client, and a stranger between their operations.
    explore(2, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (two, stranger) = (Arc::clone(&map), Arc::clone(&map));
        let other = thread::spawn(move || assert!(up_undoably(&two, 1, 3)));
        let third = thread::spawn(move || {
            semaphore(&stranger).operate(1, 100, 7, || Ok(true)).expect("an operation");
        });
        assert!(up_undoably(&map, 1, 5));
        other.join().expect("a thread");
        third.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, 9);
        assert_eq!(buried(&map), 1);
    });
}

/// As [`Records`], of a set that stands as long as [`STATE`] says 0.
struct Passing<'a>(&'a Map);

const STATE: u64 = D;

impl UndoRecords for Passing<'_> {
    fn stand(&self) -> Result<bool, Fault> {
        Ok(load_value(self.0, STATE)? == 0)
    }

    fn adjustment(&self, record: u32) -> Result<Option<u64>, Fault> {
        Ok(self.stand()?.then_some(adjustment_of(record)))
    }

    fn operator(&self, record: u32) -> Result<u32, Fault> {
        Ok(record + 100)
    }
}

fn passing(map: &Map) -> Semaphore<'_, Passing<'_>> {
    Semaphore { map, at: A, array: STANDING, records: Passing(map) }
}

/// What a message holds that comes to lie where cells were.
const TEXT: [u64; 2] = [0x0a21_6f6c_6c65_4800, 0];

/// Takes the set apart as whoever removes it does, and makes its memory a message.
fn take_apart(map: &Map, cells: &[u64]) {
    passing(map).close().expect("a semaphore");
    passing(map).close_adjustment(1, B).expect("an adjustment");
    let seen = map.load_cell(STATE).expect("a cell");
    assert!(map.replace_cell(STATE, seen, 1).expect("a cell"));
    for at in cells {
        become_text(map, *at);
    }
}

fn become_text(map: &Map, at: u64) {
    map.store(at, TEXT[0], Ordering::Relaxed).expect("a word");
    map.store(at + 8, TEXT[1], Ordering::Relaxed).expect("a word");
}

fn is_text(map: &Map, at: u64) -> bool {
    map.load_cell(at).expect("a cell") == Cell { word: TEXT[0], tag: TEXT[1] }
}

#[test]
fn nothing_is_stored_into_a_record_that_was_given_up() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (late, stranger) = (Arc::clone(&map), Arc::clone(&map));
        let other = thread::spawn(move || {
            let stands = || Passing(&late).stand();
            let done = passing(&late).operate_undoable(5, 100, 1, B, stands);
            done.expect("an operation");
        });
        let third = thread::spawn(move || {
            let stands = || Passing(&stranger).stand();
            passing(&stranger).operate(1, 100, 7, stands).expect("an operation");
        });
        take_apart(&map, &[B]);
        other.join().expect("a thread");
        third.join().expect("a thread");
        assert!(is_text(&map, B), "overwritten");
    });
}

#[test]
fn nothing_is_stored_into_a_semaphore_that_was_removed() {
    explore(2, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (late, holder) = (Arc::clone(&map), Arc::clone(&map));
        assert!(up_undoably(&map, 1, 3));
        let other = thread::spawn(move || {
            let stands = || Passing(&late).stand();
            passing(&late).operate(1, 100, 7, stands).expect("an operation");
        });
        // Who has lost the set's lock, and does not know it yet.
        let third = thread::spawn(move || {
            let _ = passing(&holder).close();
            let _ = passing(&holder).forget(1);
            let _ = passing(&holder).close_adjustment(1, B);
        });
        take_apart(&map, &[A, B]);
        other.join().expect("a thread");
        third.join().expect("a thread");
        assert!(is_text(&map, A) && is_text(&map, B), "overwritten");
    });
}

#[test]
fn who_is_late_finds_other_tags_in_memory_that_is_a_record_again() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let late = Arc::clone(&map);
        let other = thread::spawn(move || {
            let stands = || Passing(&late).stand();
            let done = passing(&late).operate_undoable(5, 100, 1, B, stands);
            done.expect("an operation") == Operated::Done
        });
        passing(&map).close().expect("a semaphore");
        let floor = passing(&map).close_adjustment(1, B).expect("an adjustment").tag + 1;
        let seen = map.load_cell(STATE).expect("a cell");
        assert!(map.replace_cell(STATE, seen, 1).expect("a cell"));
        // Another set in the same place, which stands from now on.
        let fresh = Cell { word: 0, tag: floor + 1 };
        map.lay_cell(A, fresh).expect("a cell");
        map.lay_cell(B, fresh).expect("a cell");
        let seen = map.load_cell(STATE).expect("a cell");
        assert!(map.replace_cell(STATE, seen, 0).expect("a cell"));
        let late = other.join().expect("a thread");
        // Either it came before, and is gone with the first set, or after, to the second.
        let value = load_value(&map, A).expect("a word") & 0x7fff;
        assert!(value == 0 || late && value == 5);
        assert_eq!(buried(&map), 0);
    });
}

#[test]
fn a_burial_meets_an_operation_with_undo_before_or_after_never_halfway() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let two = Arc::clone(&map);
        assert!(up_undoably(&map, 1, 5));
        // Its owner is not dead, only late: an exit in another thread.
        let other = thread::spawn(move || up_undoably(&two, 1, 3));
        let left = buried(&map);
        let late = other.join().expect("a thread");
        // Either it was done before, and was taken back, or it was refused.
        assert_eq!(left, 0);
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, if late { 8 } else { 5 });
    });
}

#[test]
fn a_closed_semaphore_and_its_adjustment_stand_still() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let two = Arc::clone(&map);
        assert!(up_undoably(&map, 1, 5));
        let other = thread::spawn(move || up_undoably(&two, 1, 3));
        let closed = semaphore(&map).close().expect("a semaphore");
        let value = SemWord::unpack(closed.word).value;
        let adjustment = semaphore(&map).close_adjustment(1, B).expect("an adjustment");
        assert_eq!(-i32::from(Adjustment::unpack(adjustment.word).total), value as i32);
        // As a change under the lock would carry them out.
        let next = Adjustment::of(0, false).pack();
        assert!(map.replace_cell(B, adjustment, next).expect("a cell"));
        let next = SemWord::of(0, 9, false).pack();
        assert!(map.replace_cell(A, closed, next).expect("a cell"));
        let late = other.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert!(word.value == 0 || late && word.value == 3, "{word:?}");
        assert_eq!(buried(&map), 0);
    });
}

/// The ring of a message queue: senders and receivers without the lock, and whoever closes it.
mod message_ring {
    use super::*;
    pub use vshmem_sync::MessageRing;
    use vshmem_sync::{Inline, Spot, Tail};

    pub const RING: u64 = PAGE_BYTES + 128;
    /// A word for each chunk: what is in its message.
    pub const TEXTS: u64 = PAGE_BYTES + 256;
    /// The type that somebody asleep waits for.
    pub const AWAITED: u64 = PAGE_BYTES + 320;
    pub const BYTES: u64 = PAGE_BYTES + 384;

    /// Sends; false when the ring is closed.
    pub fn send(map: &Map, message: u32) -> bool {
        loop {
            match MessageRing::look(map, RING).expect("a ring").tail() {
                Tail::Free(spot) if spot.fill(map, message, false).expect("a word") => return true,
                Tail::Free(_) => {}
                _ => return false,
            }
        }
    }

    /// Sends a text in a chunk that a slot notes, or in this one.
    pub fn send_text(map: &Map, unit: u32, text: u64) -> bool {
        loop {
            let Tail::Free(spot) = MessageRing::look(map, RING).expect("a ring").tail() else {
                return false;
            };
            let unit = spot.chunk().unwrap_or(unit);
            map.store(TEXTS + 8 * u64::from(unit), text, Ordering::Relaxed).expect("a word");
            if spot.fill(map, unit, false).expect("a word") {
                return true;
            }
        }
    }

    /// Sends a text in a slot itself; false when the ring is closed.
    pub fn send_inline(map: &Map, text: u64) -> bool {
        let message = Inline::of(7, &text.to_le_bytes()).expect("a short message");
        loop {
            match MessageRing::look(map, RING).expect("a ring").tail() {
                Tail::Free(spot) if spot.fill_inline(map, message).expect("a cell") => return true,
                Tail::Free(_) => {}
                _ => return false,
            }
        }
    }

    /// The text of a message in a slot, or the number of the chunk.
    pub fn text_in(map: &Map, spot: Spot) -> u64 {
        match spot.inline() {
            Some(what) => {
                assert_eq!(what, (7, 8));
                u64::from_le_bytes(spot.inline_text(map).expect("a text"))
            }
            None => u64::from(spot.chunk().expect("a chunk")),
        }
    }

    /// Receives the first message: its text, or the number of its chunk.
    pub fn receive_any(map: &Map) -> Option<u64> {
        receive_if(map, |spot| Some(text_in(map, spot)))
    }

    /// As `leave`, with the texts of messages in slots.
    pub fn leave_any(map: &Map) -> Vec<u64> {
        MessageRing::close(map, RING).expect("a close");
        let ring = MessageRing::look(map, RING).expect("a ring");
        assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
        let left = ring.messages().map(|spot| text_in(map, spot)).collect();
        for (spot, word) in ring.emptied() {
            let seen = spot.cell(map).expect("a cell");
            assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not frozen");
        }
        left
    }

    /// Sends so many bytes in a chunk, if `limit` allows them beside what is in the ring.
    pub fn send_bytes(map: &Map, unit: u32, bytes: u64, limit: u64) -> bool {
        let size_of = |unit: u32| TEXTS + 8 * u64::from(unit);
        map.store(size_of(unit), bytes, Ordering::Relaxed).expect("a word");
        loop {
            let ring = MessageRing::look(map, RING).expect("a ring");
            let Tail::Free(spot) = ring.tail() else { return false };
            if bytes + bytes_in(map, &ring) > limit {
                return false;
            }
            if spot.fill(map, unit, true).expect("a word") {
                return true;
            }
        }
    }

    /// Bytes of the messages in a ring.
    pub fn bytes_in(map: &Map, ring: &MessageRing) -> u64 {
        let size = |spot: Spot| {
            let at = TEXTS + 8 * u64::from(spot.chunk().expect("a chunk"));
            map.load(at, Ordering::Relaxed).expect("a word")
        };
        ring.messages().map(size).sum()
    }

    /// Receives the first message that `accepts` does, by its slot; `None` when there is none or the ring is closed.
    pub fn receive_if<T>(map: &Map, accepts: impl Fn(Spot) -> Option<T>) -> Option<T> {
        'look: loop {
            let ring = MessageRing::look(map, RING).expect("a ring");
            for spot in ring.messages() {
                if spot.is_closed() {
                    return None;
                }
                if let Some(found) = accepts(spot) {
                    if spot.take(map).expect("a word") {
                        return Some(found);
                    }
                    continue 'look;
                }
            }
            if ring.tail() == Tail::Closed || !ring.has_moved(map) {
                return None;
            }
        }
    }

    /// Receives; `None` when there is nothing or the ring is closed.
    pub fn receive(map: &Map) -> Option<u32> {
        receive_if(map, Spot::chunk)
    }

    /// Receives a message of a type: that is the tens of its number.
    pub fn receive_of(map: &Map, kind: u32) -> Option<u32> {
        receive_if(map, |spot| spot.chunk().filter(|number| number / 10 == kind))
    }

    /// The same where the number is the text.
    pub fn receive_text(map: &Map, kind: u64) -> Option<u64> {
        receive_if(map, |spot| {
            let text = TEXTS + 8 * u64::from(spot.chunk()?);
            let text = map.load(text, Ordering::Relaxed).expect("a word");
            (text / 10 == kind).then_some(text)
        })
    }

    /// Sends a message whose type is the tens of its number; false when somebody asleep waits for it, or the ring is closed.
    pub fn send_unless_awaited(map: &Map, message: u32) -> bool {
        loop {
            let tail = MessageRing::look(map, RING).expect("a ring").tail();
            let Tail::Free(spot) = tail else { return false };
            let awaited = map.load(AWAITED, Ordering::Acquire).expect("a word");
            if awaited == u64::from(message / 10) {
                return false;
            }
            if spot.fill(map, message, false).expect("a word") {
                return true;
            }
        }
    }

    /// Lies down for a type as the change under the lock does; false when there is a message of it.
    pub fn lie_down(map: &Map, kind: u32) -> bool {
        MessageRing::bar(map, RING).expect("a barrier");
        let ring = MessageRing::look(map, RING).expect("a ring");
        let found =
            ring.messages().filter_map(|spot| spot.chunk()).any(|number| number / 10 == kind);
        if !found {
            let nobody = map.load_cell(AWAITED).expect("a cell");
            assert!(map.replace_cell(AWAITED, nobody, kind.into()).expect("a cell"));
        }
        let (spot, word) = ring.passed().expect("a closed tail");
        let seen = spot.cell(map).expect("a cell");
        assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not closed");
        !found
    }

    /// Closes the ring as somebody who dies after the first step.
    pub fn begin_to_close(map: &Map) {
        if let Tail::Free(spot) = MessageRing::look(map, RING).expect("a ring").tail() {
            let _ = map.replace(spot.at, spot.word, spot.word | 1 << 27).expect("a word");
        }
    }

    /// Closes the ring and takes what is left, as the change under the lock does.
    pub fn leave(map: &Map) -> Vec<u32> {
        MessageRing::close(map, RING).expect("a close");
        let ring = MessageRing::look(map, RING).expect("a ring");
        assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
        for (spot, word) in ring.emptied() {
            let seen = spot.cell(map).expect("a cell");
            assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not frozen");
        }
        ring.messages().filter_map(|spot| spot.chunk()).collect()
    }

    /// Opens it again, as the change under the lock does.
    pub fn open(map: &Map) {
        let ring = MessageRing::look(map, RING).expect("a ring");
        let (spot, word) = ring.opened().expect("a closed ring");
        let seen = spot.cell(map).expect("a cell");
        assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not closed");
    }
}

#[test]
fn each_message_is_taken_once() {
    use message_ring::*;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        let sender = Arc::clone(&map);
        let receiver = Arc::clone(&map);
        assert!(send(&map, 1));
        let other = thread::spawn(move || send(&sender, 2));
        let taken = thread::spawn(move || receive(&receiver));
        assert!(send(&map, 3));
        assert!(other.join().expect("a thread"));
        let first = taken.join().expect("a thread");
        assert_eq!(first, Some(1));
        let mut rest = [receive(&map), receive(&map)];
        rest.sort_unstable();
        assert_eq!((rest, receive(&map)), ([Some(2), Some(3)], None));
    });
}

/// Two senders, and a receiver who sends again in the chunk that it has taken.
#[test]
fn a_ring_never_holds_more_bytes_than_its_queue_allows() {
    use message_ring::*;
    const LIMIT: u64 = 10;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send_bytes(&map, 1, 6, LIMIT));
        let senders: Vec<_> = [(2, 5), (3, 4)]
            .into_iter()
            .map(|(unit, bytes)| {
                let map = Arc::clone(&map);
                thread::spawn(move || send_bytes(&map, unit, bytes, LIMIT))
            })
            .collect();
        assert_eq!(receive(&map), Some(1));
        let again = send_bytes(&map, 1, 3, LIMIT);
        let sent: Vec<bool> =
            senders.into_iter().map(|sender| sender.join().expect("a thread")).collect();
        let ring = MessageRing::look(&map, RING).expect("a ring");
        let bytes = bytes_in(&map, &ring);
        assert_eq!(bytes, 3 * u64::from(again) + 5 * u64::from(sent[0]) + 4 * u64::from(sent[1]));
        assert!(bytes <= LIMIT, "{bytes}");
    });
}

#[test]
fn what_is_sent_is_received_or_found_by_whoever_closes_in_order() {
    use message_ring::*;
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 1));
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || [send(&map, 2), send(&map, 3)])
        };
        let taken = receive(&map);
        let left = leave(&map);
        let sent = sender.join().expect("a thread");
        assert!(sent[0] || !sent[1], "sent past a closed ring");
        let sent: Vec<u32> =
            [1].into_iter().chain((2..4).filter(|n| sent[*n as usize - 2])).collect();
        assert_eq!(taken.into_iter().chain(left).collect::<Vec<_>>(), sent);
    });
}

#[test]
fn what_is_not_received_is_found_by_whoever_closes_a_full_ring() {
    use message_ring::*;
    explore(1, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!((1..=8).all(|message| send(&map, message)) && !send(&map, 9));
        let receiver = {
            let map = Arc::clone(&map);
            thread::spawn(move || [receive(&map), receive(&map)])
        };
        let left = leave(&map);
        assert!(!send(&map, 10), "sent past a closed ring");
        let taken = receiver.join().expect("a thread");
        let all: Vec<u32> = taken.into_iter().flatten().chain(left).collect();
        assert_eq!(all, (1..=8).collect::<Vec<_>>());
    });
}

#[test]
fn somebody_who_died_while_closing_leaves_nothing_undone() {
    use message_ring::*;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 1));
        let dead = {
            let map = Arc::clone(&map);
            thread::spawn(move || begin_to_close(&map))
        };
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send(&map, 2))
        };
        let taken = receive(&map);
        let left = leave(&map);
        dead.join().expect("a thread");
        let expected = if sender.join().expect("a thread") { vec![1, 2] } else { vec![1] };
        assert_eq!(taken.into_iter().chain(left).collect::<Vec<_>>(), expected);
        open(&map);
        assert!(send(&map, 4));
        assert_eq!(receive(&map), Some(4));
    });
}

#[test]
fn whoever_was_stopped_while_the_ring_was_closed_and_opened_comes_too_late_or_in_time() {
    use message_ring::*;
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send(&map, 1))
        };
        let left = leave(&map);
        open(&map);
        let sent = sender.join().expect("a thread");
        let found: Vec<u32> = left.into_iter().chain(receive(&map)).collect();
        assert_eq!(found, if sent { vec![1] } else { vec![] });
    });
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 1));
        let receiver = {
            let map = Arc::clone(&map);
            thread::spawn(move || receive(&map))
        };
        let left = leave(&map);
        open(&map);
        assert!(send(&map, 2));
        let taken = receiver.join().expect("a thread");
        let found: Vec<u32> = left.into_iter().chain(taken).chain(receive(&map)).collect();
        let mut sorted = found;
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2]);
    });
}

#[test]
fn a_ring_that_is_emptied_and_opened_again_loses_nothing_of_a_sender_and_a_receiver() {
    use message_ring::*;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 1));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send(&one, 2));
        let receiver = thread::spawn(move || receive(&two));
        let mut found = leave(&map);
        open(&map);
        assert!(send(&map, 3));
        let sent = sender.join().expect("a thread");
        found.extend(receiver.join().expect("a thread"));
        found.extend(std::iter::from_fn(|| receive(&map)));
        found.sort_unstable();
        assert_eq!(found, if sent { vec![1, 2, 3] } else { vec![1, 3] });
    });
}

#[test]
fn two_receivers_of_their_own_types_and_a_sender_meet_in_a_ring() {
    use message_ring::*;
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!([10, 20, 11].into_iter().all(|message| send(&map, message)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || [send(&one, 21), send(&one, 12)]);
        let ones = thread::spawn(move || [receive_of(&two, 1), receive_of(&two, 1)]);
        let mut twos = vec![receive_of(&map, 2), receive_of(&map, 2)];
        assert_eq!(sender.join().expect("a thread"), [true; 2]);
        assert_eq!(ones.join().expect("a thread"), [Some(10), Some(11)], "they were there before");
        assert_eq!(twos[0], Some(20));
        if twos[1].is_none() {
            twos[1] = receive_of(&map, 2);
        }
        assert_eq!(twos[1], Some(21));
        assert_eq!([receive(&map), receive(&map)], [Some(12), None]);
    });
}

#[test]
fn two_receivers_of_their_own_types_find_all_or_whoever_closes_does() {
    use message_ring::*;
    explore(1, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!([10, 20, 11].into_iter().all(|message| send(&map, message)));
        let others = [1, 2].map(|kind| {
            let map = Arc::clone(&map);
            thread::spawn(move || receive_of(&map, kind))
        });
        let left = leave(&map);
        open(&map);
        assert!(send(&map, 12));
        let [one, two] = others.map(|other| other.join().expect("a thread"));
        assert!([None, Some(10), Some(12)].contains(&one), "{one:?}");
        assert!([None, Some(20)].contains(&two), "{two:?}");
        let taken = |number: &u32| [one, two].contains(&Some(*number));
        let all = [10, 20, 11];
        let expected: Vec<u32> = all.into_iter().filter(|number| !taken(number)).collect();
        assert_eq!(left, expected, "in order");
        assert_eq!(receive(&map).is_some(), one != Some(12));
    });
}

#[test]
fn a_receiver_is_not_misled_by_a_chunk_that_is_sent_again() {
    use message_ring::*;
    // The chunk of the first message carries one of the other type next, in another slot.
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send_text(&map, 1, 10) && send_text(&map, 2, 20) && send_text(&map, 3, 11));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let again = thread::spawn(move || {
            let taken = receive_text(&one, 1);
            let unit = match taken {
                Some(10) => 1,
                _ => 3,
            };
            assert!(send_text(&one, unit, 21));
            taken
        });
        let others = thread::spawn(move || receive_text(&two, 2));
        let mine = receive_text(&map, 1);
        let theirs = again.join().expect("a thread");
        let mut ones = [mine, theirs];
        ones.sort_unstable();
        assert_eq!(ones, [Some(10), Some(11)]);
        assert_eq!(others.join().expect("a thread"), Some(20), "the first of its type");
        assert_eq!([receive_text(&map, 2), receive_text(&map, 2)], [Some(21), None]);
    });
}

#[test]
fn a_ring_with_gaps_is_frozen_by_two_that_close_it_at_once() {
    use message_ring::*;
    explore(1, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!([10, 20].into_iter().all(|message| send(&map, message)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let receiver = thread::spawn(move || receive_of(&one, 2));
        let closer = thread::spawn(move || {
            MessageRing::close(&two, RING).expect("a close");
        });
        let left = leave(&map);
        closer.join().expect("a thread");
        match receiver.join().expect("a thread") {
            Some(number) => assert_eq!((number, left), (20, vec![10])),
            None => assert_eq!(left, [10, 20]),
        }
        assert!(!send(&map, 12), "sent past a closed ring");
    });
}

#[test]
fn nobody_lies_down_past_a_message_of_its_type() {
    use message_ring::*;
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 10));
        let senders = [20, 21].map(|message| {
            let map = Arc::clone(&map);
            thread::spawn(move || send_unless_awaited(&map, message))
        });
        let asleep = lie_down(&map, 2);
        let sent = senders.map(|sender| sender.join().expect("a thread"));
        let found: Vec<_> = std::iter::from_fn(|| receive_of(&map, 2)).collect();
        assert_eq!(found.len(), sent.into_iter().filter(|sent| *sent).count());
        assert!(!asleep || found.is_empty(), "nobody wakes it");
        assert_eq!(receive(&map), Some(10));
    });
}

#[test]
fn others_send_and_receive_beside_whoever_lies_down() {
    use message_ring::*;
    explore(3, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send(&map, 10) && send(&map, 30));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send_unless_awaited(&one, 11));
        let receiver = thread::spawn(move || receive_of(&two, 3));
        assert!(lie_down(&map, 2));
        let taken = receiver.join().expect("a thread").or_else(|| receive_of(&map, 3));
        assert_eq!(taken, Some(30));
        if !sender.join().expect("a thread") {
            // It met the barrier, and goes under the lock.
            assert!(send_unless_awaited(&map, 11));
        }
        assert!(!send_unless_awaited(&map, 20), "it is awaited");
        assert!(MessageRing::look(&map, RING).expect("a ring").makes_sense());
        assert_eq!([receive(&map), receive(&map), receive(&map)], [Some(10), Some(11), None]);
    });
}

/// The word that says how a process stands: anything but 0, and it may not go on.
const STANDING: u64 = PAGE_BYTES + 96;

/// Two clients, and two things that they may hold.
mod holdings {
    use super::*;

    pub const FORMER: ClientName = ClientName::new(0, 1);
    pub const NEXT: ClientName = ClientName::new(1, 1);
    /// The lists of the two.
    pub const LISTS: [u64; 2] = [A, B];
    /// Whose is what, and what leads from there to what that one had claimed before.
    pub const THINGS: [Held; 2] =
        [Held { number: 0, owner: C, sibling: D }, Held { number: 1, owner: E, sibling: F }];

    pub fn of(map: &Map, client: ClientName) -> HeldBy<'_> {
        HeldBy { map, list: LISTS[client.slot().expect("a slot") as usize], client }
    }

    pub fn new_map() -> Arc<Map> {
        let map = Arc::new(Map::anonymous(END as usize));
        for client in [FORMER, NEXT] {
            set(&map, of(&map, client).list, Holding::empty(client).pack());
        }
        map
    }

    pub fn set(map: &Map, at: u64, word: u64) {
        let seen = map.load_cell(at).expect("a cell");
        assert!(map.replace_cell(at, seen, word).expect("a cell"));
    }

    /// Takes everything off a client's list, as a burial does; says what was on it. `each` is done to it first.
    pub fn bury(map: &Map, client: ClientName, mut each: impl FnMut(Held)) -> Vec<u32> {
        let all = of(map, client);
        let mut found = Vec::new();
        while let Some((head, number)) = all.last().expect("a list") {
            each(THINGS[number as usize]);
            if all.give_up(head, THINGS[number as usize]).expect("a list") {
                found.push(number);
            }
        }
        found
    }

    /// Takes back what carries a dead client's name and is on no list.
    pub fn reclaim(map: &Map, held: Held, dead: ClientName) {
        claim_word(map, held.owner, dead.word(), 0).expect("a cell");
    }
}

#[test]
fn a_client_that_was_buried_while_it_claimed_spoils_no_list_of_the_next_owner() {
    use holdings::*;
    // The former client is stopped anywhere while it claims the second thing, and taken for dead: another one buries it and
    // takes the thing back, and a third claims it, which already holds the first.
    explore(3, || {
        let map = new_map();
        assert!(of(&map, NEXT).claim(THINGS[0]).expect("a claim"));
        let undertaker = Arc::clone(&map);
        let burial = thread::spawn(move || {
            bury(&undertaker, FORMER, |_| ());
            reclaim(&undertaker, THINGS[1], FORMER);
        });
        let heir = Arc::clone(&map);
        let next = thread::spawn(move || of(&heir, NEXT).claim(THINGS[1]).expect("a claim"));
        let _ = of(&map, FORMER).claim(THINGS[1]);
        burial.join().expect("a thread");
        let both = next.join().expect("a thread");
        let found = bury(&map, NEXT, |_| ());
        assert_eq!(found, if both { vec![1, 0] } else { vec![0] }, "not all is found");
    });
}

#[test]
fn a_burial_that_was_stopped_takes_nothing_of_the_next_owner() {
    use holdings::*;
    // Two bury the former client, who held both; each thing is freed once, and the next client claims them meanwhile.
    explore(2, || {
        let map = new_map();
        for held in THINGS {
            assert!(of(&map, FORMER).claim(held).expect("a claim"));
        }
        let others = [0, 1].map(|_| {
            let map = Arc::clone(&map);
            thread::spawn(move || bury(&map, FORMER, |_| ()).len())
        });
        let next = THINGS.map(|held| of(&map, NEXT).claim(held).expect("a claim"));
        let buried: usize = others.map(|other| other.join().expect("a thread")).iter().sum();
        assert_eq!(buried, 2, "each is taken off once");
        let mut expected: Vec<u32> = THINGS.iter().map(|held| held.number).rev().collect();
        expected.retain(|number| next[*number as usize]);
        assert_eq!(bury(&map, NEXT, |_| ()), expected);
        for held in THINGS {
            assert_eq!(value(&map, held.owner), 0, "not freed");
        }
    });
}

#[test]
fn an_evicted_holder_changes_nothing_any_more() {
    explore(3, || {
        let map = Arc::new(Map::anonymous(END as usize));
        let (evicted, evictor) = (Process::new(&map, 0), Process::new(&map, 1));
        evicted.seats.stand_on(STANDING, Cell::default());
        let other = thread::spawn(move || {
            let desk = Desk {
                map: &evicted.map,
                threads: THREADS,
                words_end: END,
                slot: evicted.slot,
                seats: &evicted.seats,
            };
            with_lock(desk, LOCK, "model", |txn| {
                txn.set(A, 1)?;
                txn.set(B, 1)
            })
        });
        assert!(map.replace_cell(STANDING, Cell::default(), 1).expect("a cell"));
        vshmem_mem::fence(Ordering::SeqCst);
        if holder_of(&map, LOCK).expect("a lock").is_some() {
            evictor.change(LOCK, |_| Ok(()));
        }
        // Whatever it has done, it has done by now.
        let before = (value(&map, A), value(&map, B));
        let said = other.join().expect("a thread");
        assert_eq!((value(&map, A), value(&map, B)), before, "{said:?}");
        assert!(before == (0, 0) || before == (1, 1));
        assert_eq!(said.is_ok(), before == (1, 1), "{said:?}");
    });
}

/// A text in a slot is never seen in part or for another, whoever sends next into the slot: eight laps on, or in a chunk.
#[test]
fn a_text_in_a_slot_is_that_of_its_message() {
    use message_ring::*;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        // One more message fits; the receiver makes room for the next.
        assert!((1..=7).all(|text| send_inline(&map, text)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || [send_inline(&one, 18), send_inline(&one, 19)]);
        let other = thread::spawn(move || send(&two, 20));
        let taken = [receive_any(&map), receive_any(&map)];
        assert_eq!(taken, [Some(1), Some(2)]);
        let sent = sender.join().expect("a thread");
        let other = other.join().expect("a thread");
        let rest: Vec<u64> = std::iter::from_fn(|| receive_any(&map)).collect();
        assert_eq!(rest[..5], [3, 4, 5, 6, 7]);
        let mut late = rest[5..].to_vec();
        let own: Vec<u64> = late.iter().copied().filter(|text| *text != 20).collect();
        let expected: Vec<u64> = [18, 19]
            .into_iter()
            .zip(sent)
            .filter_map(|(text, sent)| sent.then_some(text))
            .collect();
        assert_eq!(own, expected, "in order");
        late.retain(|text| *text == 20);
        assert_eq!(late.len(), usize::from(other));
    });
}

#[test]
fn texts_in_slots_are_received_or_found_by_whoever_closes() {
    use message_ring::*;
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send_inline(&map, 1) && send(&map, 2));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send_inline(&one, 3));
        let receiver = thread::spawn(move || receive_any(&two));
        let mut found = leave_any(&map);
        assert!(found.is_sorted());
        open(&map);
        assert!(send_inline(&map, 4));
        let sent = sender.join().expect("a thread");
        found.extend(receiver.join().expect("a thread"));
        found.extend(std::iter::from_fn(|| receive_any(&map)));
        found.sort_unstable();
        assert_eq!(found, if sent { vec![1, 2, 3, 4] } else { vec![1, 2, 4] });
    });
}
