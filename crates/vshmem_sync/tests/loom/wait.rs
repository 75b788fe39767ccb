//! Sleeping and waking.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{ParkResult, WaitWords, park, wake};
use vshmem_wire::{Place, RawCell};

use crate::model::{A, B, END, cells, explore, value};

/// Changes a cell, and wakes the thread that waits in the first slot.
fn change_and_wake(map: &Map, words: &WaitWords, cell: Place<RawCell>) {
    let seen = map.load_cell(cell).expect("a cell");
    assert!(map.replace_cell(cell, seen, 1).expect("a cell"));
    wake(words, 0).expect("a wake-up");
}

/// Waits in the first slot until a cell has changed.
fn wait_for(map: &Map, words: &WaitWords, cell: Place<RawCell>) {
    let changed = || map.load(cell.word(), Ordering::SeqCst).expect("a cell") as u32 == 1;
    loop {
        let park_result = park(words, 0, None, Duration::from_secs(1), None, 0, changed);
        if park_result.expect("a wait") == ParkResult::Changed {
            break;
        }
    }
}

#[test]
fn a_waiter_is_never_missed() {
    explore(4, || {
        let map = cells(END);
        let words = Arc::new(WaitWords::new(Arc::new(Map::anonymous(16)), 0, 4));
        let waker = {
            let (map, words) = (Arc::clone(&map), Arc::clone(&words));
            thread::spawn(move || change_and_wake(&map, &words, A))
        };
        wait_for(&map, &words, A);
        waker.join().expect("a thread");
    });
}

#[test]
fn a_wake_up_for_the_slots_former_waiter_is_no_answer_to_the_next_one() {
    // The first waiter leaves when it sees its word change, which may be before its waker wakes it;
    // the next one sleeps in the same slot.
    explore(2, || {
        let map = cells(END);
        let words = Arc::new(WaitWords::new(Arc::new(Map::anonymous(16)), 0, 4));
        let wakers = [A, B].map(|cell| {
            let (map, words) = (Arc::clone(&map), Arc::clone(&words));
            thread::spawn(move || change_and_wake(&map, &words, cell))
        });
        for cell in [A, B] {
            wait_for(&map, &words, cell);
            assert_eq!(value(&map, cell), 1);
        }
        for waker in wakers {
            waker.join().expect("a thread");
        }
    });
}
