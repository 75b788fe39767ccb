use crate::fixture::*;

#[test]
fn everything_of_a_dead_client_comes_back() {
    let pool = pool();
    let (dead, last) = (join(&pool, 10), join(&pool, 11));
    let (set, queue) = (last.set(2), last.queue());
    let segment = last.segment(PRIVATE, 4096, 0).unwrap();
    for _ in 0..3 {
        dead.shmat(segment, true, false, &ROOT).unwrap();
    }
    dead.op(set, &[undone(up(0))]).unwrap();
    for size in [10, 1000, 8000] {
        dead.send(queue, 1, &vec![0; size]).unwrap();
        dead.receive(queue, 0).unwrap();
    }
    dead.send(queue, 1, b"stays").unwrap();
    assert!(room(&pool).chunks_held >= 2);
    last.reap(dead.client_id()).unwrap();
    sound(&pool);
    assert_eq!(last.value(set, 0), 0);
    assert_eq!(last.segment_stat(segment, &ROOT).unwrap().attached, 0);
    assert_eq!(last.receive_now(queue, 0).unwrap().1, b"stays");
    last.reap(dead.client_id()).unwrap();
    last.segment_remove(segment, &ROOT).unwrap();
    last.set_remove(set, &ROOT).unwrap();
    last.queue_remove(queue, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn waiters_of_a_dead_client_leave_their_wait_queues() {
    let pool = pool();
    let last = join(&pool, 11);
    let set = last.set(1);
    {
        let dead = join(&pool, 10);
        std::thread::scope(|scope| {
            // One of another client stays in the middle of the wait queue.
            let before = scope.spawn(|| dead.op(set, &[down(0)]));
            until("asleep", || asleep(&pool) == 1);
            let stays = scope.spawn(|| last.op(set, &[down(0)]));
            until("asleep", || asleep(&pool) == 2);
            let behind = scope.spawn(|| dead.op(set, &[down(0)]));
            until("asleep", || asleep(&pool) == 3);
            last.reap(dead.client_id()).unwrap();
            until("gone", || last.waiters(set, 0, false) == 1);
            last.op(set, &[up(0)]).unwrap();
            assert_eq!(stays.join().unwrap(), Ok(()));
            // What is left of the dead tries again; it goes with the set.
            last.set_remove(set, &ROOT).unwrap();
            assert!(before.join().unwrap().is_err());
            assert!(behind.join().unwrap().is_err());
        });
    }
    sound(&pool);
    empty(&pool, &last);
}

#[test]
fn a_wait_queue_of_receivers_and_senders_survives_a_death() {
    let pool = pool();
    let last = join(&pool, 11);
    let (full, void) = (last.queue(), last.queue());
    for _ in 0..2 {
        last.send(full, 1, &[0; 8192]).unwrap();
    }
    let dead = join(&pool, 10);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| dead.receive(void, 0));
        let sender = scope.spawn(|| dead.send(full, 1, b"x"));
        until("asleep", || asleep(&pool) == 2);
        last.reap(dead.client_id()).unwrap();
        assert!(pool.clients().unwrap().len() == 1);
        last.send(void, 1, b"y").unwrap();
        let _ = last.receive_now(void, 0);
        last.queue_remove(void, &ROOT).unwrap();
        last.queue_remove(full, &ROOT).unwrap();
        let _ = (receiver.join().unwrap(), sender.join().unwrap());
    });
    sound(&pool);
}

#[test]
fn reaping_is_by_pid_within_the_domain() {
    let pool = pool();
    let (me, same, other) = (join(&pool, 10), join(&pool, 11), join_in(&pool, "b", 11));
    assert_eq!(me.reap_process(11, |_, _| true), Ok(true));
    assert_eq!(me.reap_process(11, |_, _| true), Ok(false));
    let left: Vec<u32> = pool.clients().unwrap().iter().map(|row| row.index).collect();
    assert!(left.contains(&other.client_slot()) && !left.contains(&same.client_slot()));
    empty(&pool, &me);
}

#[test]
fn a_process_finds_its_slot_again_after_exec() {
    let pool = pool();
    let (before, last) = (join(&pool, 10), join(&pool, 11));
    let set = last.set(1);
    let segment = last.segment(PRIVATE, 4096, 0).unwrap();
    before.op(set, &[undone(by(0, 2))]).unwrap();
    before.shmat(segment, true, false, &ROOT).unwrap();
    let after = join(&pool, 10);
    assert_eq!(after.client_slot(), before.client_slot());
    assert_eq!(last.segment_stat(segment, &ROOT).unwrap().attached, 0);
    assert_eq!(last.value(set, 0), 2);
    after.op(set, &[undone(by(0, 3))]).unwrap();
    sound(&pool);
    last.reap(after.client_id()).unwrap();
    assert_eq!(last.value(set, 0), 0);
    last.segment_remove(segment, &ROOT).unwrap();
    last.set_remove(set, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn two_may_reap_at_once() {
    let pool = pool();
    let (one, two) = (join(&pool, 10), join(&pool, 11));
    for pid in 100..150 {
        let dead = join(&pool, pid);
        let (set, queue) = (one.set(20), one.queue());
        let segment = one.segment(PRIVATE, 4096, 0).unwrap();
        dead.op(set, &(0..20).map(|n| undone(up(n))).collect::<Vec<_>>()).unwrap();
        dead.shmat(segment, true, false, &ROOT).unwrap();
        dead.send(queue, 1, &[1; 500]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| one.reap(dead.client_id()).unwrap());
            scope.spawn(|| two.reap(dead.client_id()).unwrap());
        });
        sound(&pool);
        let mut sum = 0;
        one.semaphore_values(set, &ROOT, |_, value| sum += value).unwrap();
        assert_eq!(sum, 0);
        assert_eq!(one.segment_stat(segment, &ROOT).unwrap().attached, 0);
        one.set_remove(set, &ROOT).unwrap();
        one.queue_remove(queue, &ROOT).unwrap();
        one.segment_remove(segment, &ROOT).unwrap();
    }
    empty(&pool, &one);
}
