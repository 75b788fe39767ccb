//! Arrays of operations without the lock.

use std::sync::Arc;

use loom::thread;
use vshmem_mem::Map;
use vshmem_sync::{Fault, Operated, Semaphore, SemaphoreArray, UndoRecords, load_value};
use vshmem_wire::{ArrayState, ArrayWord, Cell, Place, RawCell, SemWord};

use crate::model::{A, B, C, D, END, become_text, cells, explore, is_text};

/// Two semaphores at A and B. The array's word is at C; at D it says how often the set has gone.
const ARRAY: Place<RawCell> = C;
const GONE: Place<RawCell> = D;

/// What a set knows that stands as long as it has gone so many times.
struct NoRecords<'a>(&'a Map, u32);

impl UndoRecords for NoRecords<'_> {
    fn check_current(&self) -> Result<bool, Fault> {
        Ok(load_value(self.0, GONE)? == self.1)
    }

    fn adjustment(&self, _: u32) -> Result<Option<Place<RawCell>>, Fault> {
        Ok(None)
    }

    fn operator(&self, _: u32) -> Result<u32, Fault> {
        Ok(0)
    }
}

/// A semaphore of the set that stands in the `turn`th place.
fn semaphore(map: &Map, turn: u32, number: u32) -> Semaphore<'_, NoRecords<'_>> {
    let at = [A, B][number as usize];
    Semaphore { map, at, array: ARRAY, records: NoRecords(map, turn) }
}

fn operate_in(map: &Map, turn: u32, operations: &[(u16, i16)]) -> bool {
    let find = |number| match number {
        0 | 1 => Ok(semaphore(map, turn, number)),
        _ => Err(Fault::TooLong),
    };
    let array = SemaphoreArray { map, at: ARRAY, find };
    let is_current = || NoRecords(map, turn).check_current();
    match array.operate(operations, 100, 7, is_current).expect("an array") {
        Operated::Done => true,
        Operated::Closed => false,
        other => panic!("{other:?}"),
    }
}

fn operate(map: &Map, operations: &[(u16, i16)]) -> bool {
    operate_in(map, 0, operations)
}

/// Adds to one semaphore; false when that has to wait, or the fast way is closed.
fn operate_one(map: &Map, number: u32, change: i16) -> bool {
    let is_current = || NoRecords(map, 0).check_current();
    let done = semaphore(map, 0, number).operate(change, 100, 8, is_current);
    done.expect("an operation") == Operated::Done
}

fn values(map: &Map) -> [u32; 2] {
    [0, 1].map(|number| semaphore(map, 0, number).read().expect("a value").0.value)
}

fn lay(map: &Map, value: u32, tag: u64) {
    for at in [A, B] {
        let word = SemWord::of(value, 0, false).pack();
        map.lay_cell(at, Cell { word, tag }).expect("a cell");
    }
}

fn pool(value: u32) -> Arc<Map> {
    let map = cells(END);
    lay(&map, value, 1);
    map
}

fn replace(map: &Map, at: Place<RawCell>, word: u64) {
    let seen = map.load_cell(at).expect("a cell");
    assert!(map.replace_cell(at, seen, word).expect("a cell"));
}

/// Opens the first array, of both semaphores, and says what its word is.
fn open_array(map: &Map) -> ArrayWord {
    let open = ArrayWord {
        state: ArrayState::Open,
        former_done: false,
        mark: 1,
        count: 2,
        numbers: [0, 1, 0, 0],
    };
    replace(map, ARRAY, open.pack());
    open
}

#[test]
fn three_take_from_two_semaphores_and_none_takes_from_one_alone() {
    explore(2, || {
        let map = pool(1);
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let first = thread::spawn(move || operate(&one, &[(0, -1), (1, -1)]));
        let second = thread::spawn(move || operate(&two, &[(1, -1), (0, -1)]));
        let third = operate_one(&map, 0, -1);
        let arrays = [first, second].map(|one| u32::from(one.join().expect("a thread")));
        let arrays = arrays[0] + arrays[1];
        assert!(arrays + u32::from(third) <= 1);
        assert_eq!(values(&map), [1 - arrays - u32::from(third), 1 - arrays]);
    });
}

#[test]
fn who_closes_the_semaphores_finds_all_of_an_array_or_nothing() {
    explore(2, || {
        let map = pool(5);
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let array = thread::spawn(move || operate(&one, &[(0, 1), (1, 1)]));
        let single = thread::spawn(move || operate_one(&two, 1, 10));
        let closed = [0, 1].map(|number| {
            let cell = semaphore(&map, 0, number).close().expect("a cell");
            SemWord::unpack(cell.word).value
        });
        let (array, single) = (array.join().expect("a thread"), single.join().expect("a thread"));
        let added = [u32::from(array), u32::from(array) + 10 * u32::from(single)];
        assert_eq!(closed, [5 + added[0], 5 + added[1]]);
        assert_eq!(values(&map), closed, "closed");
    });
}

#[test]
fn arrays_of_a_client_killed_half_way_have_no_effect() {
    explore(2, || {
        let map = pool(5);
        // Opened, and one of two semaphores swapped.
        let open = open_array(&map);
        replace(&map, A, SemWord::tentatively(9, 5, 7, 1).pack());
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let first = thread::spawn(move || operate(&one, &[(0, 1), (1, 1)]));
        let second = thread::spawn(move || operate_one(&two, 0, 10));
        // The one who was stopped goes on: it swaps the other, and would commit.
        let late = SemWord::tentatively(9, 5, 7, 1).pack();
        let swapped = map.replace_cell(B, Cell { word: 5, tag: 1 }, late).expect("a cell");
        let done = ArrayWord { state: ArrayState::Done, ..open };
        let opened = Cell { word: open.pack(), tag: 1 };
        let done = swapped && map.replace_cell(ARRAY, opened, done.pack()).expect("a cell");
        let first = u32::from(first.join().expect("a thread"));
        let second = u32::from(second.join().expect("a thread"));
        let start = if done { 9 } else { 5 };
        assert_eq!(values(&map), [start + first + 10 * second, start + first]);
    });
}

#[test]
fn no_late_swap_of_a_cancelled_array_is_taken_for_one_of_a_later_array() {
    explore(2, || {
        let map = pool(5);
        open_array(&map);
        let (late, other) = (Arc::clone(&map), Arc::clone(&map));
        let late = thread::spawn(move || {
            let word = SemWord::tentatively(50, 5, 7, 1).pack();
            late.replace_cell(B, Cell { word: 5, tag: 1 }, word).expect("a cell")
        });
        // As many arrays as there are marks, over the other semaphore and itself.
        let third = thread::spawn(move || u32::from(operate_one(&other, 0, 1)));
        let mut done = 0;
        for _ in 0..4 {
            done += u32::from(operate(&map, &[(0, 1), (0, 0)]));
            done += u32::from(operate(&map, &[(0, 1), (1, 0)]));
        }
        late.join().expect("a thread");
        let third = third.join().expect("a thread");
        assert_eq!(done, 0, "the second semaphore, or the first, is not 0");
        for _ in 0..4 {
            done += u32::from(operate(&map, &[(0, 1), (1, 1)]));
        }
        assert_eq!(values(&map), [5 + third + done, 5 + done]);
        assert_eq!(done, 4);
    });
}

/// Closes both semaphores as the thread that removes the set does, says that it has gone, and makes
/// its memory a message.
fn take_apart(map: &Map) {
    for number in [0, 1] {
        semaphore(map, 0, number).close().expect("a semaphore");
    }
    replace(map, GONE, 1);
    for at in [A, B] {
        become_text(map, at);
    }
}

#[test]
fn an_array_stores_nothing_into_a_set_that_was_removed() {
    explore(2, || {
        let map = pool(5);
        let (late, other_client) = (Arc::clone(&map), Arc::clone(&map));
        let other = thread::spawn(move || operate(&late, &[(0, 1), (1, 1)]));
        let third = thread::spawn(move || operate_one(&other_client, 1, 1));
        take_apart(&map);
        other.join().expect("a thread");
        third.join().expect("a thread");
        assert!(is_text(&map, A) && is_text(&map, B), "overwritten");
    });
}

#[test]
fn an_array_that_is_late_counts_for_nothing_in_the_next_set_of_the_slot() {
    explore(2, || {
        let map = pool(5);
        let late = Arc::clone(&map);
        let other = thread::spawn(move || operate(&late, &[(0, 1), (1, 1)]));
        take_apart(&map);
        // In the same memory: the tags start above all that were there.
        lay(&map, 1, 1 << 40);
        let done = u32::from(operate_in(&map, 1, &[(0, 1), (1, 1)]));
        other.join().expect("a thread");
        let now = [0, 1].map(|number| semaphore(&map, 1, number).read().expect("a value").0.value);
        assert_eq!(now, [1 + done; 2]);
    });
}
