//! The lists of what a client has claimed.

use std::sync::Arc;

use loom::thread;
use vshmem_mem::Map;
use vshmem_sync::{ClientList, ListEntry, claim_word};
use vshmem_wire::{ClientId, ClientListHead, Place, RawCell};

use crate::model::{A, B, C, D, E, END, F, cells, explore, value};

/// Two clients, and two things that they may hold.
mod holdings {
    use super::*;

    pub const FORMER: ClientId = ClientId::new(0, 1);
    pub const NEXT: ClientId = ClientId::new(1, 1);
    /// The lists of the two.
    pub const LISTS: [Place<RawCell>; 2] = [A, B];
    /// Whose is what, and what leads from there to what that one had claimed before.
    pub const THINGS: [ListEntry; 2] = [
        ListEntry { number: 0, owner: C, sibling: D },
        ListEntry { number: 1, owner: E, sibling: F },
    ];

    pub fn of(map: &Map, client: ClientId) -> ClientList<'_> {
        ClientList { map, list: LISTS[client.slot().expect("a slot") as usize], client }
    }

    pub fn new_map() -> Arc<Map> {
        let map = cells(END);
        for client in [FORMER, NEXT] {
            set(&map, of(&map, client).list, ClientListHead::empty(client).pack());
        }
        map
    }

    pub fn set(map: &Map, at: Place<RawCell>, word: u64) {
        let seen = map.load_cell(at).expect("a cell");
        assert!(map.replace_cell(at, seen, word).expect("a cell"));
    }

    /// Takes everything off a client's list, as reaping does; says what was on it. `each` is done
    /// to it first.
    pub fn reap(map: &Map, client: ClientId, mut each: impl FnMut(ListEntry)) -> Vec<u32> {
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

    /// Takes back what carries a dead client's id and is on no list.
    pub fn reclaim(map: &Map, held: ListEntry, dead: ClientId) {
        claim_word(map, held.owner, dead.word(), 0).expect("a cell");
    }
}

#[test]
fn a_client_that_was_reaped_while_it_claimed_spoils_no_list_of_the_next_owner() {
    use holdings::*;
    // The former client is stopped anywhere while it claims the second thing, and taken for dead:
    // another one reaps it and takes the thing back, and a third claims it, which already holds the
    // first.
    explore(3, || {
        let map = new_map();
        assert!(of(&map, NEXT).claim(THINGS[0]).expect("a claim"));
        let reaper = Arc::clone(&map);
        let reaping = thread::spawn(move || {
            reap(&reaper, FORMER, |_| ());
            reclaim(&reaper, THINGS[1], FORMER);
        });
        let next_owner = Arc::clone(&map);
        let next = thread::spawn(move || of(&next_owner, NEXT).claim(THINGS[1]).expect("a claim"));
        let _ = of(&map, FORMER).claim(THINGS[1]);
        reaping.join().expect("a thread");
        let both = next.join().expect("a thread");
        let found = reap(&map, NEXT, |_| ());
        assert_eq!(found, if both { vec![1, 0] } else { vec![0] }, "not all is found");
    });
}

#[test]
fn reaping_that_was_stopped_takes_nothing_of_the_next_owner() {
    use holdings::*;
    // Two reap the former client, who held both; each thing is freed once, and the next client
    // claims them meanwhile.
    explore(2, || {
        let map = new_map();
        for held in THINGS {
            assert!(of(&map, FORMER).claim(held).expect("a claim"));
        }
        let others = [0, 1].map(|_| {
            let map = Arc::clone(&map);
            thread::spawn(move || reap(&map, FORMER, |_| ()).len())
        });
        let next = THINGS.map(|held| of(&map, NEXT).claim(held).expect("a claim"));
        let reaped: usize = others.map(|other| other.join().expect("a thread")).iter().sum();
        assert_eq!(reaped, 2, "each is taken off once");
        let mut expected: Vec<u32> = THINGS.iter().map(|held| held.number).rev().collect();
        expected.retain(|number| next[*number as usize]);
        assert_eq!(reap(&map, NEXT, |_| ()), expected);
        for held in THINGS {
            assert_eq!(value(&map, held.owner), 0, "not freed");
        }
    });
}
