//! Pages near the process that asks for them, in a pool with a range of pages on each of two nodes.

use std::sync::Arc;

use crate::fixture::*;
use vshmem_ipc::{Backing, Client, Errno, NewPool, OpenError, Pool};
use vshmem_wire::{Geometry, NODE_RANGES, NodeRange};

const PAGE: u64 = 4096;
/// Pages on each node.
const EACH: u32 = 128;

/// A process that runs on a node.
struct On<'a>(&'a Pool, Option<u32>);

impl Backing for On<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        Zeroing(self.0).prepare(offset, bytes, dirty)
    }

    fn node(&self) -> Option<u32> {
        self.1
    }
}

fn ranges(of: &[(u32, u32, u32)]) -> [NodeRange; NODE_RANGES] {
    let mut ranges = [NodeRange::NONE; NODE_RANGES];
    for (range, (first, pages, node)) in ranges.iter_mut().zip(of) {
        *range = NodeRange { first: *first, pages: *pages, node: *node, ..NodeRange::NONE };
        // Node 9 has no range, and is near to node 5.
        range.distances[9] = if *node == 5 { 16 } else { 31 };
    }
    ranges
}

/// Pages 0 to 127 on node 2, 128 to 255 on node 5.
fn two_nodes() -> Arc<Pool> {
    pool_on_nodes(small(), 0, ranges(&[(0, EACH, 2), (EACH, EACH, 5)]))
}

/// A segment of so many pages, for a process on `node`, with `key`; its first page.
fn segment(me: &Client, node: Option<u32>, key: i32, pages: u64) -> (i32, u64) {
    let id = me.shmget(key, pages * PAGE, 0o1600, &ROOT, &On(me.pool(), node)).unwrap();
    let first = place(me, id);
    sound(me.pool());
    (id, first)
}

fn place(me: &Client, id: i32) -> u64 {
    let offset = me.shmat(id, true, false, &ROOT).unwrap().offset;
    me.shmdt(id).unwrap();
    (offset - me.pool().layout().data.offset()) / PAGE
}

fn remove(me: &Client, segments: Vec<(i32, u64)>) {
    for (id, _) in segments {
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(me.pool(), me);
}

#[test]
fn a_segment_gets_pages_of_its_makers_node_then_the_nearest_then_any() {
    let pool = two_nodes();
    let me = join(&pool, 10);
    let mut made = vec![segment(&me, Some(5), PRIVATE, 100)];
    assert_eq!(made[0].1, 128);
    made.push(segment(&me, Some(2), PRIVATE, 60));
    assert_eq!(made[1].1, 0);
    // Near node 5, which has 28 pages left.
    made.push(segment(&me, Some(9), PRIVATE, 20));
    assert_eq!(made[2].1, 228);
    made.push(segment(&me, Some(9), PRIVATE, 20));
    assert_eq!(made[3].1, 60);
    remove(&me, made);
    // More than a node has: wherever they are in a row.
    let wide = vec![segment(&me, Some(5), PRIVATE, 200)];
    assert_eq!(wide[0].1, 0);
    remove(&me, wide);
}

#[test]
fn a_free_extent_over_both_nodes_is_cut_where_the_callers_begins() {
    let pool = two_nodes();
    let me = join(&pool, 10);
    let low = segment(&me, Some(2), PRIVATE, 100);
    let high = segment(&me, Some(5), PRIVATE, 1);
    assert_eq!((low.1, high.1), (0, 128));
    remove(&me, vec![low, high]);
    assert_eq!(room(&pool).free_extents, 1);
    // To the last page of its node, and not one more.
    let last = segment(&me, Some(2), PRIVATE, 128);
    let other = segment(&me, Some(2), PRIVATE, 1);
    assert_eq!((last.1, other.1), (0, 128));
    remove(&me, vec![last, other]);
}

#[test]
fn a_key_asks_for_a_node_whatever_the_caller_runs_on() {
    let pool = two_nodes();
    let me = join(&pool, 10);
    let made = vec![
        segment(&me, Some(2), 0x4e4f_0501, 3),
        segment(&me, Some(5), 0x4e4f_0201, 3),
        segment(&me, None, 0x4e4f_0502, 3),
        // No such node here: as if nothing were known.
        segment(&me, Some(5), 0x4e4f_7701, 3),
    ];
    let places: Vec<u64> = made.iter().map(|(_, first)| *first).collect();
    assert_eq!(places, [128, 0, 131, 3]);
    remove(&me, made);
}

#[test]
fn memory_that_is_held_lies_on_the_callers_node() {
    let pool = two_nodes();
    let me = join(&pool, 10);
    let held = me.hold_memory(3 * PAGE, 0, &ROOT, &On(&pool, Some(5))).unwrap();
    assert_eq!((held.offset - pool.layout().data.offset()) / PAGE, 128);
    me.shmdt(held.id).unwrap();
    empty(&pool, &me);
}

#[test]
fn without_ranges_nobody_asks_for_the_node() {
    struct Never;
    impl Backing for Never {
        fn prepare(&self, _: u64, _: u64, _: bool) -> Result<(), Errno> {
            Ok(())
        }
        fn node(&self) -> Option<u32> {
            panic!("asked")
        }
    }
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.shmget(PRIVATE, PAGE, 0o600, &ROOT, &Never).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
}

#[test]
fn ranges_that_cannot_be_are_a_damaged_superblock() {
    let geometry = Geometry { pages: 256, ..small() };
    let header = |node_ranges| {
        let new = NewPool { backed: true, node_ranges, ..new_pool(geometry) };
        let bytes = Pool::header(&new).unwrap();
        Pool::identify(&bytes, geometry.layout().unwrap().total_bytes).map(|_| ())
    };
    assert_eq!(header(ranges(&[(0, 256, 0)])), Ok(()));
    for wrong in [
        &[(0, 255, 0)][..],
        &[(0, 128, 0), (128, 129, 1)],
        &[(0, 128, 0), (127, 129, 1)],
        &[(0, u32::MAX, 0)],
        &[(0, 256, 4000)],
    ] {
        let refused = header(ranges(wrong));
        assert_eq!(refused, Err(OpenError::Damaged("its ranges of nodes")), "{wrong:?}");
    }
}
