use crate::fixture::*;
use std::sync::atomic::{AtomicBool, Ordering};
use vshmem_ipc::{Client, Errno, QueueOpen, QueueSize};
use vshmem_wire::{ClientId, ThreadSlot, field};

#[test]
fn a_child_inherits_attaches_and_no_adjustments() {
    let pool = pool();
    let (parent, last) = (join(&pool, 10), join(&pool, 11));
    let (a, b) = (parent.segment(PRIVATE, 1, 0).unwrap(), parent.segment(PRIVATE, 1, 0).unwrap());
    let set = parent.set(1);
    parent.shmat(a, true, false, &ROOT).unwrap();
    parent.shmat(a, true, false, &ROOT).unwrap();
    parent.shmat(b, true, false, &ROOT).unwrap();
    parent.op(set, &[undone(up(0))]).unwrap();
    let kept = parent.reserve_child().unwrap();
    sound(&pool);
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 4);
    // The child's own copy of the member: here, the same one under a new name.
    let child = join(&pool, 12);
    last.reap(child.client_id()).unwrap();
    child.become_child(Some(kept), process(13), None).unwrap();
    sound(&pool);
    child.shmdt(a).unwrap();
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 3);
    last.reap(child.client_id()).unwrap();
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 2);
    assert_eq!(last.segment_stat(b, &ROOT).unwrap().attached, 1);
    assert_eq!(last.value(set, 0), 1);
    last.reap(parent.client_id()).unwrap();
    assert_eq!(last.value(set, 0), 0);
    last.segment_remove(a, &ROOT).unwrap();
    last.segment_remove(b, &ROOT).unwrap();
    last.set_remove(set, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn a_cancelled_fork_gives_the_slot_back() {
    let pool = pool();
    let parent = join(&pool, 10);
    let a = parent.segment(PRIVATE, 1, 0).unwrap();
    parent.shmat(a, true, false, &ROOT).unwrap();
    for _ in 0..40 {
        let kept = parent.reserve_child().unwrap();
        parent.cancel_child(kept);
    }
    assert_eq!(parent.segment_stat(a, &ROOT).unwrap().attached, 1);
    parent.shmdt(a).unwrap();
    parent.segment_remove(a, &ROOT).unwrap();
    empty(&pool, &parent);
}

#[test]
fn a_fork_beside_threads_that_let_go_of_segments_counts_what_is_there() {
    const ROUNDS: u32 = 400;
    let pool = pool();
    let parent = join(&pool, 10);
    // Two slots are left: one that has become free is soon the next segment's. Behind the first
    // record there is enough to copy for that to happen meanwhile.
    let stay: Vec<_> = (0..pool.geometry().shmmni - 2)
        .map(|_| {
            let id = parent.segment(PRIVATE, 1, 0).unwrap();
            parent.shmat(id, true, false, &ROOT).unwrap();
            id
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // A child may keep what is removed.
                let Ok(id) = parent.segment(PRIVATE, 1, 0) else { continue };
                parent.shmat(id, true, false, &ROOT).unwrap();
                parent.segment_remove(id, &ROOT).unwrap();
                parent.shmdt(stay[0]).unwrap();
                parent.shmat(stay[0], true, false, &ROOT).unwrap();
                parent.shmdt(id).unwrap();
            }
        });
        let only_again = reserve_and_cancel(&parent, ROUNDS);
        over.store(true, Ordering::Relaxed);
        assert!(only_again, "a fork fails with EAGAIN, or not at all");
    });
    sound(&pool);
    for id in stay {
        assert_eq!(parent.segment_stat(id, &ROOT).unwrap().attached, 1);
        parent.shmdt(id).unwrap();
        parent.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &parent);
}

#[test]
fn a_fork_beside_threads_that_close_queues_counts_what_is_there() {
    const ROUNDS: u32 = 400;
    let pool = pool();
    let parent = join(&pool, 10);
    let new = QueueOpen {
        read: true,
        write: true,
        create: true,
        exclusive: true,
        mode: 0o600,
        size: Ok(QueueSize::DEFAULT),
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let id = parent.mq_open(b"q", &new, &ROOT).unwrap();
                parent.mq_unlink(b"q", &ROOT).unwrap();
                parent.mq_close(id).unwrap();
            }
        });
        let only_again = reserve_and_cancel(&parent, ROUNDS);
        over.store(true, Ordering::Relaxed);
        assert!(only_again, "a fork fails with EAGAIN, or not at all");
    });
    sound(&pool);
    empty(&pool, &parent);
}

/// Keeps slots for children, and gives them back. A fork may be refused while others never rest:
/// whether all that was refused was so.
fn reserve_and_cancel(parent: &Client, rounds: u32) -> bool {
    let mut only_again = true;
    for _ in 0..rounds {
        match parent.reserve_child() {
            Ok(kept) => parent.cancel_child(kept),
            Err(errno) => only_again &= errno == Errno::AGAIN,
        }
    }
    only_again
}

#[test]
fn a_full_table_of_clients_is_eagain_for_fork() {
    let pool = pool();
    let parent = join(&pool, 10);
    let kept: Vec<_> = (0..15).map(|_| parent.reserve_child().unwrap()).collect();
    assert_eq!(parent.reserve_child(), Err(Errno::AGAIN));
    for slot in kept {
        parent.cancel_child(slot);
    }
    empty(&pool, &parent);
}

#[test]
fn a_child_in_a_pid_namespace_of_its_own_is_a_client_of_another_domain() {
    let pool = pool();
    let (parent, last) = (join(&pool, 12), join(&pool, 11));
    let segment = last.segment(PRIVATE, 4096, 0).unwrap();
    parent.shmat(segment, true, false, &ROOT).unwrap();
    let kept = parent.reserve_child().unwrap();
    let former = parent.domain();
    // As after fork: this object is now the child, the first process of its namespace.
    let child = parent;
    let inside = vshmem_ipc::DomainIdentity { pid_namespace: 2, ..domain("a") };
    child.become_child(Some(kept), process(1), Some(&inside)).unwrap();
    assert_ne!(child.domain(), former);
    // The agent of the former domain does not take it for its own pid 1.
    assert!(pool.local_clients(former).unwrap().iter().all(|row| row.pid != 1));
    let set = last.set(1);
    child.op(set, &[undone(up(0))]).unwrap();
    last.reap_domain(child.domain()).unwrap();
    assert_eq!(last.value(set, 0), 0);
    assert_eq!(last.segment_stat(segment, &ROOT).unwrap().attached, 1);
    last.set_remove(set, &ROOT).unwrap();
    last.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn a_child_that_finds_no_slot_is_no_client() {
    let pool = pool();
    let (parent, last) = (join(&pool, 12), join(&pool, 11));
    let others: Vec<_> =
        (1..pool.geometry().domains).map(|nth| join_in(&pool, &format!("guest{nth}"), 5)).collect();
    let (set, segment) = (last.set(1), last.segment(PRIVATE, 4096, 0).unwrap());
    // As after fork: this object is now the child, the first process of its namespace.
    let (parent, child) = (parent.client_id(), parent);
    let inside = vshmem_ipc::DomainIdentity { pid_namespace: 2, ..domain("a") };
    assert!(child.become_child(None, process(1), Some(&inside)).is_err());
    assert_eq!(child.op(set, &[up(0)]), Err(Errno::IO));
    assert_eq!(child.op(set, &[undone(up(0))]), Err(Errno::IO));
    assert_eq!(child.shmat(segment, true, false, &ROOT).map(drop), Err(Errno::IO));
    assert_eq!(last.value(set, 0), 0);
    assert!(!is_joining_anywhere(&pool), "a thread slot is kept by no client's id");
    last.set_remove(set, &ROOT).unwrap();
    last.segment_remove(segment, &ROOT).unwrap();
    for other in others {
        other.leave().unwrap();
    }
    last.reap(parent).unwrap();
    empty(&pool, &last);
}

/// Whether a thread slot carries the name of a process that is only just joining.
fn is_joining_anywhere(pool: &vshmem_ipc::Pool) -> bool {
    let threads = pool.layout().threads;
    (0..threads.count as u32).any(|slot| {
        let owner = field!(threads.at(slot).unwrap(), ThreadSlot, owner).word();
        let word = pool.map().load(owner, vshmem_mem::Ordering::Relaxed).unwrap();
        ClientId::of(word).is_some_and(ClientId::is_joining)
    })
}
