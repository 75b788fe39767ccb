//! Single semaphores: operations without the lock, and prepared undo.

use std::sync::Arc;

use loom::thread;
use vshmem_mem::Map;
use vshmem_sync::{Fault, Operated, Semaphore, UndoRecords, load_value};
use vshmem_wire::{Adjustment, Cell, Place, RawCell, SemWord};

use crate::model::{A, B, C, D, END, STATE, VALIDITY, become_text, cells, explore, is_text};

/// A semaphore at A; the adjustment of undo record 1 is at B, that of record 2 at C.
struct Records;

impl UndoRecords for Records {
    fn check_current(&self) -> Result<bool, Fault> {
        Ok(true)
    }

    fn adjustment(&self, record: u32) -> Result<Option<Place<RawCell>>, Fault> {
        Ok(Some(adjustment_of(record)))
    }

    fn operator(&self, record: u32) -> Result<u32, Fault> {
        Ok(record + 100)
    }
}

fn adjustment_of(record: u32) -> Place<RawCell> {
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

/// What the reapings of both records' owners leave of the value.
fn reaped(map: &Map) -> i32 {
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
        let map = cells(END);
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
        assert_eq!(reaped(&map), 1);
    });
}

#[test]
fn two_threads_of_a_client_share_an_adjustment() {
    explore(3, || {
        let map = cells(END);
        let two = Arc::clone(&map);
        let other = thread::spawn(move || assert!(up_undoably(&two, 1, 3)));
        assert!(up_undoably(&map, 1, 5));
        assert!(up_undoably(&map, 1, 5));
        other.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, 13);
        assert_eq!(reaped(&map), 0);
    });
}

#[test]
fn a_thread_never_takes_an_operation_of_another_for_its_own() {
    // Two threads of one client, and another client between their operations.
    explore(2, || {
        let map = cells(END);
        let (two, other_client) = (Arc::clone(&map), Arc::clone(&map));
        let other = thread::spawn(move || assert!(up_undoably(&two, 1, 3)));
        let third = thread::spawn(move || {
            semaphore(&other_client).operate(1, 100, 7, || Ok(true)).expect("an operation");
        });
        assert!(up_undoably(&map, 1, 5));
        other.join().expect("a thread");
        third.join().expect("a thread");
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, 9);
        assert_eq!(reaped(&map), 1);
    });
}

/// As [`Records`], of a set that stands as long as [`STATE`] says 0.
struct Passing<'a>(&'a Map);

impl UndoRecords for Passing<'_> {
    fn check_current(&self) -> Result<bool, Fault> {
        Ok(load_value(self.0, STATE)? == 0)
    }

    fn adjustment(&self, record: u32) -> Result<Option<Place<RawCell>>, Fault> {
        Ok(self.check_current()?.then_some(adjustment_of(record)))
    }

    fn operator(&self, record: u32) -> Result<u32, Fault> {
        Ok(record + 100)
    }
}

fn passing(map: &Map) -> Semaphore<'_, Passing<'_>> {
    Semaphore { map, at: A, array: VALIDITY, records: Passing(map) }
}

/// Takes the set apart as the thread that removes it does, and makes its memory a message.
fn take_apart(map: &Map, cells: &[Place<RawCell>]) {
    passing(map).close().expect("a semaphore");
    passing(map).close_adjustment(1, B).expect("an adjustment");
    let seen = map.load_cell(STATE).expect("a cell");
    assert!(map.replace_cell(STATE, seen, 1).expect("a cell"));
    for at in cells {
        become_text(map, *at);
    }
}

#[test]
fn nothing_is_stored_into_a_record_that_was_given_up() {
    explore(3, || {
        let map = cells(END);
        let (late, other_client) = (Arc::clone(&map), Arc::clone(&map));
        let other = thread::spawn(move || {
            let is_current = || Passing(&late).check_current();
            let done = passing(&late).operate_undoable(5, 100, 1, B, is_current);
            done.expect("an operation");
        });
        let third = thread::spawn(move || {
            let is_current = || Passing(&other_client).check_current();
            passing(&other_client).operate(1, 100, 7, is_current).expect("an operation");
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
        let map = cells(END);
        let (late, holder) = (Arc::clone(&map), Arc::clone(&map));
        assert!(up_undoably(&map, 1, 3));
        let other = thread::spawn(move || {
            let is_current = || Passing(&late).check_current();
            passing(&late).operate(1, 100, 7, is_current).expect("an operation");
        });
        // A thread that has lost the set's lock, and does not know it yet.
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
        let map = cells(END);
        let late = Arc::clone(&map);
        let other = thread::spawn(move || {
            let is_current = || Passing(&late).check_current();
            let done = passing(&late).operate_undoable(5, 100, 1, B, is_current);
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
        assert_eq!(reaped(&map), 0);
    });
}

#[test]
fn reaping_meets_an_operation_with_undo_before_or_after_never_halfway() {
    explore(3, || {
        let map = cells(END);
        let two = Arc::clone(&map);
        assert!(up_undoably(&map, 1, 5));
        // Its owner is not dead, only late: an exit in another thread.
        let other = thread::spawn(move || up_undoably(&two, 1, 3));
        let left = reaped(&map);
        let late = other.join().expect("a thread");
        // Either it was done before, and was taken back, or it was refused.
        assert_eq!(left, 0);
        let (word, _) = semaphore(&map).read().expect("a semaphore");
        assert_eq!(word.value, if late { 8 } else { 5 });
    });
}

#[test]
fn a_closed_semaphore_and_its_adjustment_do_not_change() {
    explore(3, || {
        let map = cells(END);
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
        assert_eq!(reaped(&map), 0);
    });
}
