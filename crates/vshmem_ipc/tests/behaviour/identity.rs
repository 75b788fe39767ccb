//! Client ids are never used again; what carries the id of a client that has ended.

use std::collections::HashSet;
use std::sync::Arc;

use vshmem_ipc::{Client, Errno, WakeScope};
use vshmem_mem::Ordering;
use vshmem_wire::{ClientId, ThreadSlot, domain_digest, field};

use crate::fixture::*;

#[test]
fn the_client_ids_of_one_slot_all_differ() {
    let pool = pool();
    let me = join(&pool, 10);
    let mut names = HashSet::new();
    let mut first = None;
    for _ in 0..1100 {
        let other = join(&pool, 20);
        assert!(names.insert(other.client_id()), "a client id has come back");
        let first = *first.get_or_insert(other.client_id());
        assert_eq!(me.may_act(first), names.len() == 1);
        me.reap(other.client_id()).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_listing_from_before_the_slot_changed_hands_reaps_no_client() {
    let pool = pool();
    let me = join(&pool, 10);
    let before = join(&pool, 20);
    let census = pool.local_clients(me.domain()).unwrap();
    let seen = *census.iter().find(|row| row.index == before.client_slot()).unwrap();
    me.reap(before.client_id()).unwrap();
    // The same pid; of neither the start time is known, or it was started within the same tick.
    let next = join(&pool, 20);
    assert_eq!(next.client_slot(), before.client_slot());
    let set = me.set(1);
    next.op(set, &[undone(by(0, 3))]).unwrap();
    assert_eq!(me.reap_local(&seen), Ok(false));
    assert_eq!(me.value(set, 0), 3);
    next.op(set, &[undone(by(0, 1))]).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn slots_are_taken_again_in_the_order_in_which_they_became_free() {
    let pool = pool();
    let me = join(&pool, 10);
    let others: Vec<Client> = (20..25).map(|pid| join(&pool, pid)).collect();
    let dead = [3, 0, 4, 1].map(|nth: usize| &others[nth]);
    let slots = dead.map(Client::client_slot).to_vec();
    for other in dead {
        me.reap(other.client_id()).unwrap();
    }
    let again: Vec<u32> = (30..34).map(|pid| join(&pool, pid).client_slot()).collect();
    assert_eq!(again, slots);
    empty(&pool, &me);
}

/// The eight bits that once distinguished the domains of joining clients.
fn former_mark(boot: [u32; 4], pid_namespace: u32) -> u32 {
    let all = boot.iter().fold(pid_namespace, |all, word| all.rotate_left(7) ^ word);
    all.wrapping_mul(0x9e37_79b9) >> 24
}

fn boot_words(name: &str) -> [u32; 4] {
    let boot = domain(name).boot_id;
    std::array::from_fn(|i| u32::from_ne_bytes(std::array::from_fn(|j| boot[4 * i + j])))
}

#[test]
fn a_domain_frees_what_its_own_joining_processes_held_and_no_other_ones() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let mark = former_mark(boot_words("a"), 1);
    let namesake = (0..100_000)
        .map(|nth| format!("b{nth}"))
        .find(|name| former_mark(boot_words(name), 1) == mark)
        .unwrap();
    let other = join_in(&pool, &namesake, 10);
    // A process of the other domain is in the middle of joining.
    let layout = *pool.layout();
    let slot = layout.threads.at(layout.threads.count as u32 - 1).unwrap();
    let owner = field!(slot, ThreadSlot, owner).word();
    let name = ClientId::joining(domain_digest(boot_words(&namesake), 1), 77);
    pool.map().store(owner, name.word(), Ordering::Relaxed).unwrap();
    me.free_joining_slots(me.domain(), &|_| true).unwrap();
    assert_eq!(pool.map().load(owner, Ordering::Relaxed), Ok(name.word()));
    other.free_joining_slots(other.domain(), &|pid| pid != 77).unwrap();
    assert_eq!(pool.map().load(owner, Ordering::Relaxed), Ok(name.word()));
    other.free_joining_slots(other.domain(), &|pid| pid == 77).unwrap();
    assert_eq!(pool.map().load(owner, Ordering::Relaxed), Ok(0));
    empty(&pool, &me);
}

#[test]
fn the_next_namespace_of_an_inode_finds_nothing_of_the_former_ones() {
    let pool = pool();
    let me = join(&pool, 10);
    let set = me.set(1);
    let born = |born: u64, pid: u32| {
        let identity = vshmem_ipc::DomainIdentity { pid_namespace: 2, born, ..domain("a") };
        Client::join(Arc::clone(&pool), &identity, process(pid), None, WakeScope::Kernel).unwrap()
    };
    let former = born(1000, 5);
    former.op(set, &[undone(by(0, 3))]).unwrap();
    // Who cannot see when its namespace began, and who reads it a tick off, is of the same one.
    assert_eq!(born(0, 6).domain(), former.domain());
    assert_eq!(born(1001, 7).domain(), former.domain());
    assert_eq!(me.value(set, 0), 3);
    let next = born(2000, 5);
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(former.op(set, &[up(0)]), Err(Errno::IO));
    next.op(set, &[up(0)]).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn domains_that_have_come_and_gone_leave_room_for_others() {
    let pool = pool();
    let me = join(&pool, 10);
    for nth in 0..2 * pool.geometry().domains {
        let other = join_in(&pool, &format!("guest{nth}"), 5);
        assert_ne!(other.domain(), me.domain());
        other.leave().unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_client_uses_its_undo_records_again() {
    let pool = pool();
    let me = join(&pool, 10);
    let kept: Vec<i32> = (0..12).map(|_| me.set(1)).collect();
    for set in &kept {
        me.op(*set, &[undone(up(0))]).unwrap();
    }
    let most = pool.geometry().undos as usize;
    for _ in 0..2 * most {
        let set = me.set(1);
        me.op(set, &[undone(up(0))]).unwrap();
        me.set_remove(set, &ROOT).unwrap();
    }
    sound(&pool);
    me.apply_adjustments().unwrap();
    for set in kept {
        assert_eq!(me.value(set, 0), 0);
        me.set_remove(set, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn threads_that_have_ended_leave_no_slots_behind_that_others_lack() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let set = me.set(1);
    let most = pool.geometry().threads as usize;
    for this_client in [&me, &other, &me, &other] {
        let waiters = most / 2;
        std::thread::scope(|scope| {
            for _ in 0..waiters {
                scope.spawn(|| this_client.op(set, &[down(0)]).unwrap());
            }
            until("asleep", || asleep(&pool) == waiters);
            me.op(set, &[by(0, waiters as i16)]).unwrap();
        });
    }
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn chunks_of_those_who_have_ended_are_found_when_there_are_no_others() {
    let pool = pool();
    let me = join(&pool, 10);
    let queue = me.queue();
    let fill = |this_client: &Client| {
        let mut sets = Vec::new();
        while let Ok(set) = this_client.semget(PRIVATE, 1000, 0o600, &ROOT) {
            sets.push(set);
        }
        sets
    };
    let all = fill(&me);
    for set in &all {
        me.set_remove(*set, &ROOT).unwrap();
    }
    // Each keeps a chunk of every size that it has used, when it dies.
    for pid in 20..60 {
        let dead = join(&pool, pid);
        for bytes in [1, 1000, 3000, 8000] {
            dead.send(queue, 1, &vec![0; bytes]).unwrap();
            dead.receive(queue, 0).unwrap();
        }
        let set = dead.semget(PRIVATE, 1000, 0o600, &ROOT).unwrap();
        dead.set_remove(set, &ROOT).unwrap();
        me.reap(dead.client_id()).unwrap();
    }
    sound(&pool);
    let again = fill(&me);
    assert!(again.len() + 1 >= all.len(), "what the dead had kept is lost");
    for set in again {
        me.set_remove(set, &ROOT).unwrap();
    }
    me.queue_remove(queue, &ROOT).unwrap();
    empty(&pool, &me);
}
