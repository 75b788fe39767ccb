//! Models of the locks, the records and the sleeping, run through every order of events that a few
//! preemptions can bring about.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p vshmem_sync --test loom`

#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Desk, Fault, Parked, Seats, Txn, WaitWords, load_value, park, ring, with_lock};
use vshmem_wire::{Area, Cell, PAGE_BYTES, ThreadSlot};

/// Thread slots lie in front, cells where a record may name them.
const THREADS: Area = Area { offset: 0, stride: size_of::<ThreadSlot>() as u64, count: 3 };
const LOCK: u64 = PAGE_BYTES;
const OTHER_LOCK: u64 = PAGE_BYTES + 8;
const A: u64 = PAGE_BYTES + 16;
const B: u64 = PAGE_BYTES + 24;
const C: u64 = PAGE_BYTES + 32;
const D: u64 = PAGE_BYTES + 40;
const END: u64 = PAGE_BYTES + 64;

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
            process.raise(LOCK, [A, B]);
            process.raise(OTHER_LOCK, [C, D]);
        };
        let other = thread::spawn(move || both(&two));
        both(&one);
        other.join().expect("a thread");
        assert_eq!((value(&map, A), value(&map, B)), (2, 2));
        assert_eq!((value(&map, C), value(&map, D)), (2, 2));
    });
}

/// A cell that also has a fast way: one compare-and-swap without the lock, as a semaphore's.
mod fast {
    use super::*;

    pub const SLOW: u32 = 1 << 15;

    fn replace(map: &Map, word: u64, value: u32) -> bool {
        map.replace(A, word, Cell::successor(word, value)).expect("a cell")
    }

    /// One up without the lock; false when the way is closed.
    pub fn up(map: &Map) -> bool {
        loop {
            let word = map.load(A, Ordering::Acquire).expect("a cell");
            let value = Cell::unpack(word).value;
            if value & SLOW != 0 {
                return false;
            }
            if replace(map, word, value + 1) {
                return true;
            }
        }
    }

    /// Closes the way and returns the word and the value.
    pub fn close(txn: &mut Txn<'_>) -> Result<(u64, u32), Fault> {
        loop {
            let word = txn.word(A)?;
            let value = Cell::unpack(word).value;
            if value & SLOW != 0 {
                return Ok((word, value & !SLOW));
            }
            if replace(txn.desk().map, word, value | SLOW) {
                return Ok((Cell::successor(word, value | SLOW), value));
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
                let (word, value) = fast::close(txn)?;
                txn.replace(A, word, Cell::successor(word, value + 1))
            });
        };
        let other = thread::spawn(move || {
            if !fast::up(&two.map) {
                two.change(LOCK, |txn| {
                    let (word, value) = fast::close(txn)?;
                    txn.replace(A, word, Cell::successor(word, value + 1))
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
                    let (word, value) = fast::close(txn)?;
                    let waits = txn.get(B)? == 1;
                    txn.update(B, if waits { 2 } else { 0 })?;
                    txn.replace(A, word, Cell::successor(word, value + 1))
                });
            }
        });
        let took = sleeper.change(LOCK, |txn| {
            let (word, value) = fast::close(txn)?;
            if value == 0 {
                // The way stays closed.
                txn.set(B, 1)?;
                return Ok(false);
            }
            txn.replace(A, word, Cell::successor(word, value - 1))?;
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
                let word = map.load(A, Ordering::Acquire).expect("a cell");
                assert!(map.replace(A, word, Cell::successor(word, 1)).expect("a cell"));
                ring(&words, 0).expect("a ring");
            })
        };
        let changed = || map.load(A, Ordering::SeqCst).expect("a cell") as u32 == 1;
        loop {
            let parked = park(&words, 0, None, None, Duration::from_secs(1), 0, changed);
            if parked.expect("a wait") == Parked::Changed {
                break;
            }
        }
        waker.join().expect("a thread");
    });
}
