//! Locks and intent records.

use loom::thread;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, LockContext, Txn, holder_of, load_value, read_if_free, with_lock};
use vshmem_wire::Cell;

use crate::model::{
    A, B, C, END, LOCK, OTHER_LOCK, Process, STATE, THREADS, VALIDITY, become_text,
    cells_and_slots, explore, is_text, value,
};

#[test]
fn a_change_happens_once_whichever_client_takes_the_lock_over() {
    explore(3, || {
        let map = cells_and_slots();
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
        let map = cells_and_slots();
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
        let map = cells_and_slots();
        let (one, two) = (Process::new(&map, 0), Process::new(&map, 1));
        // The thread that carries out the first record may still be at it when its slot has the
        // second, and would make a change of it that never was committed.
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
        let map = cells_and_slots();
        let raise = |process: &Process| {
            process.change(LOCK, |txn| {
                let is_current = txn.get(STATE)? == 0;
                if is_current {
                    let before = txn.get(C)?;
                    txn.set(C, before + 1)?;
                    txn.set(B, before + 1)?;
                }
                Ok(u32::from(is_current))
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

#[test]
fn what_is_read_while_the_lock_is_free_is_of_one_moment() {
    explore(2, || {
        let map = cells_and_slots();
        // Each raises both; the second may take over from the first.
        let others = [1, 2].map(|slot| {
            let process = Process::new(&map, slot);
            thread::spawn(move || process.raise(LOCK, [A, B]))
        });
        let read = || Ok((load_value(&map, A)?, load_value(&map, B)?));
        if let Some((a, b)) = read_if_free(&map, LOCK, read).expect("cells") {
            assert_eq!(a, b, "a part of a change");
        }
        for other in others {
            other.join().expect("a thread");
        }
        assert_eq!(read_if_free(&map, LOCK, read), Ok(Some((2, 2))));
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
            if replace(txn.lock_context().map, seen, value | SLOW) {
                return Ok((seen.successor((value | SLOW).into()), value));
            }
        }
    }
}

#[test]
fn a_fast_operation_and_a_change_under_the_lock_both_count() {
    explore(3, || {
        let map = cells_and_slots();
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
fn no_waiter_enters_the_queue_past_a_fast_rise() {
    // One wants a token and enters the wait queue when there is none; the other brings one. In the
    // end either it has the token, or it was asked to try again.
    explore(3, || {
        let map = cells_and_slots();
        let (waiter, riser) = (Process::new(&map, 0), Process::new(&map, 1));
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
        let took = waiter.change(LOCK, |txn| {
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
fn an_evicted_holder_changes_nothing_any_more() {
    explore(3, || {
        let map = cells_and_slots();
        let (evicted, evictor) = (Process::new(&map, 0), Process::new(&map, 1));
        evicted.slot_cache.bind_to(VALIDITY, Cell::default());
        let other = thread::spawn(move || {
            let lock_context = LockContext {
                map: &evicted.map,
                threads: THREADS,
                words_end: END,
                slot: evicted.slot,
                slot_cache: &evicted.slot_cache,
            };
            with_lock(lock_context, LOCK, "model", |txn| {
                txn.set(A, 1)?;
                txn.set(B, 1)
            })
        });
        assert!(map.replace_cell(VALIDITY, Cell::default(), 1).expect("a cell"));
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
