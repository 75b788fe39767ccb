//! What a death costs: not a time, but how often the client that reaps looks into the pool. It
//! grows with what the dead client held, not with the tables of the pool nor with what others hold.

use std::sync::Arc;

use vshmem_ipc::{Client, Pool};
use vshmem_mem::accesses;
use vshmem_wire::Geometry;

use crate::fixture::{Calls, PRIVATE, ROOT, join, pool_of, small, sound, undone, up};

const MOST: usize = 100;

/// What clients hold: the first of each, or more of them.
struct Things {
    segments: Vec<i32>,
    sets: Vec<i32>,
    queue: i32,
}

fn large() -> Geometry {
    Geometry {
        shmmni: 128,
        semmni: 128,
        clients: 1024,
        threads: 4096,
        attaches: 8192,
        undos: 4096,
        slabs: 512,
        ..small()
    }
}

impl Things {
    fn new(of: &Client, count: usize) -> Self {
        let segment = |_| of.segment(PRIVATE, 4096, 0).expect("a segment");
        Self {
            segments: (0..count).map(segment).collect(),
            sets: (0..count).map(|_| of.set(1)).collect(),
            queue: of.queue(),
        }
    }

    /// Attaches, adjustments, a thread slot, and chunks of the heap.
    fn hold(&self, client: &Client, count: usize) {
        for (segment, set) in self.segments.iter().zip(&self.sets).take(count) {
            client.shmat(*segment, true, false, &ROOT).expect("an attach");
            client.op(*set, &[undone(up(0))]).expect("an adjustment");
            client.send(self.queue, 1, &[0; 1000]).expect("a message");
            client.receive(self.queue, 0).expect("a message");
        }
    }
}

/// How often the pool is looked at when a client dies that held so many of each, beside so many
/// clients that hold one of each.
fn cost(geometry: Geometry, others: u32, held: usize) -> u64 {
    let pool: Arc<Pool> = pool_of(geometry);
    let last = join(&pool, 1);
    let things = Things::new(&last, held);
    let all: Vec<Client> = (0..others).map(|nth| join(&pool, 10_000 + nth)).collect();
    for other in &all {
        things.hold(other, 1);
    }
    let dead = join(&pool, 2);
    things.hold(&dead, held);
    // The thread slot of the client that reaps is no part of what is counted.
    last.op(things.sets[0], &[up(0)]).expect("an operation");
    let before = accesses();
    last.reap(dead.client_id()).expect("reaping");
    let cost = accesses() - before;
    sound(&pool);
    let attached = last.segment_stat(things.segments[0], &ROOT).expect("a segment").attached;
    assert_eq!(attached, others, "the dead client's attaches alone are gone");
    assert_eq!(last.value(things.sets[0], 0), others + 1, "its adjustments alone are applied");
    println!("{others} others, {held} of each held: {cost} looks");
    drop(all);
    cost
}

#[test]
fn a_death_costs_what_the_dead_held_and_not_what_the_pool_has() {
    for held in [1, 10] {
        let alone = cost(small(), 1, held);
        let (roomy, crowded) = (cost(large(), 1, held), cost(large(), 1000, held));
        let most = alone + alone / 10;
        assert!(roomy <= most, "{roomy} looks in a large pool, {alone} in a small one");
        assert!(crowded <= most, "{crowded} looks beside 1,000 clients, {alone} beside one");
    }
    let (few, many) = (cost(large(), 1, MOST / 10), cost(large(), 1, MOST));
    assert!(few < many && many <= 11 * few, "{many} looks for ten times what costs {few}");
}

/// A parent that has waited for a child knows its pid.
#[test]
fn to_find_a_client_by_its_pid_takes_one_look_for_each_slot() {
    const OTHERS: u32 = 1000;
    let pool: Arc<Pool> = pool_of(large());
    let parent = join(&pool, 1);
    let others: Vec<Client> = (0..OTHERS).map(|nth| join(&pool, 10_000 + nth)).collect();
    let find = || parent.reap_process(5, |_, _| true).expect("a search");
    // The parent's thread slot is no part of what is counted.
    assert!(!find());
    let before = accesses();
    assert!(!find());
    let looks = accesses() - before;
    assert!(looks < u64::from(OTHERS) + 100, "{looks} looks beside {OTHERS} clients");
    drop(others);
}
