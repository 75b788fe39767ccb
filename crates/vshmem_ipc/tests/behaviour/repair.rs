use crate::fixture::*;
use vshmem_mem::Ordering;
use vshmem_wire::{DomainSlot, Place, RawCell, field};

#[test]
fn a_sound_pool_needs_no_repair() {
    let pool = pool();
    let me = join(&pool, 10);
    let set = me.set(3);
    me.op(set, &[undone(up(0))]).unwrap();
    me.segment(PRIVATE, 1, 0).unwrap();
    assert_eq!(me.repair().unwrap(), Vec::<String>::new());
    assert_eq!(me.value(set, 0), 1);
}

#[test]
fn the_clients_of_a_dead_domain_are_reaped() {
    let pool = pool();
    let (me, dead) = (join_in(&pool, "a", 10), join_in(&pool, "b", 11));
    let (set, segment) = (me.set(1), me.segment(PRIVATE, 1, 0).unwrap());
    dead.op(set, &[undone(up(0))]).unwrap();
    dead.shmat(segment, true, false, &ROOT).unwrap();
    // The client that reaped the domain has died after marking it.
    let slot = pool.layout().domains.at(dead.domain()).unwrap();
    let state = field!(slot, DomainSlot, state).cell().word();
    let word = pool.map().load(state, Ordering::Relaxed).unwrap();
    pool.map().store(state, (word & !0xffff_ffff) | 2, Ordering::Relaxed).unwrap();
    assert!(!pool.check().unwrap().is_empty());
    assert_eq!(me.repair().unwrap(), Vec::<String>::new());
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(me.segment_stat(segment, &ROOT).unwrap().attached, 0);
    me.set_remove(set, &ROOT).unwrap();
    me.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn counters_are_counted_again() {
    let pool = pool();
    let me = join(&pool, 10);
    let segment = me.segment(PRIVATE, 9000, 0).unwrap();
    for cell in [7, 8, 9, 14] {
        let cells = Place::<RawCell>::at(pool.layout().registry.offset());
        let at = cells.nth(cell).word();
        let word = pool.map().load(at, Ordering::Relaxed).unwrap();
        pool.map().store(at, word + 5, Ordering::Relaxed).unwrap();
    }
    assert!(!pool.check().unwrap().is_empty());
    assert_eq!(me.repair().unwrap(), Vec::<String>::new());
    me.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_child_slot_without_a_process_is_given_back() {
    let pool = pool();
    let (me, parent) = (join(&pool, 10), join(&pool, 11));
    let segment = parent.segment(PRIVATE, 1, 0).unwrap();
    parent.shmat(segment, true, false, &ROOT).unwrap();
    parent.reserve_child().unwrap();
    me.reap(parent.client_id()).unwrap();
    assert_eq!(pool.check().unwrap().len(), 1);
    assert_eq!(me.repair().unwrap(), Vec::<String>::new());
    assert_eq!(me.segment_stat(segment, &ROOT).unwrap().attached, 0);
    me.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &me);
}
