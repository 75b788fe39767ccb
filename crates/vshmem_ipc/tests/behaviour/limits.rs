use crate::fixture::*;
use vshmem_ipc::{Client, Errno, JoinError, WakeScope};
use vshmem_wire::Geometry;

#[test]
fn full_tables_say_enospc_and_work_again_after_a_removal() {
    let pool = pool();
    let me = join(&pool, 10);
    let mut segments: Vec<i32> = (0..16).map(|_| me.segment(PRIVATE, 1, 0).unwrap()).collect();
    assert_eq!(me.segment(PRIVATE, 1, 0), Err(Errno::NOSPC));
    assert_eq!(me.segment(77, 1, CREATE), Err(Errno::NOSPC));
    sound(&pool);
    me.segment_remove(segments.swap_remove(3), &ROOT).unwrap();
    segments.push(me.segment(77, 1, CREATE).unwrap());
    let mut sets: Vec<i32> = (0..16).map(|_| me.set(1)).collect();
    assert_eq!(me.semget(PRIVATE, 1, 0o600, &ROOT), Err(Errno::NOSPC));
    me.set_remove(sets.swap_remove(15), &ROOT).unwrap();
    sets.push(me.set(1));
    let mut queues: Vec<i32> = (0..16).map(|_| me.queue()).collect();
    assert_eq!(me.msgget(PRIVATE, 0o600, &ROOT), Err(Errno::NOSPC));
    me.queue_remove(queues.swap_remove(0), &ROOT).unwrap();
    queues.push(me.queue());
    sound(&pool);
    for id in segments {
        me.segment_remove(id, &ROOT).unwrap();
    }
    for id in sets {
        me.set_remove(id, &ROOT).unwrap();
    }
    for id in queues {
        me.queue_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn pages_run_out_and_come_back() {
    let pool = pool();
    let me = join(&pool, 10);
    let all = me.segment(PRIVATE, 256 * 4096, 0).unwrap();
    assert_eq!(me.segment(PRIVATE, 1, 0), Err(Errno::NOSPC));
    me.segment_remove(all, &ROOT).unwrap();
    let some = me.segment(PRIVATE, 1, 0).unwrap();
    assert_eq!(me.segment(PRIVATE, 256 * 4096, 0), Err(Errno::NOSPC));
    me.segment_remove(some, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn shmall_and_shmmax_bound_segments() {
    let pool = pool_of(Geometry { shmall: 10, shmmax: 8 * 4096, ..small() });
    let me = join(&pool, 10);
    assert_eq!(me.segment(PRIVATE, 8 * 4096 + 1, 0), Err(Errno::INVAL));
    let id = me.segment(PRIVATE, 8 * 4096, 0).unwrap();
    assert_eq!(me.segment(PRIVATE, 3 * 4096, 0), Err(Errno::NOSPC));
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn attach_records_run_out_and_come_back() {
    let pool = pool_of(Geometry { attaches: 3, ..small() });
    let me = join(&pool, 10);
    let ids: Vec<i32> = (0..4).map(|_| me.segment(PRIVATE, 1, 0).unwrap()).collect();
    for id in &ids[..3] {
        me.shmat(*id, true, false, &ROOT).unwrap();
    }
    assert_eq!(me.shmat(ids[3], true, false, &ROOT), Err(Errno::NOMEM));
    me.shmat(ids[0], true, false, &ROOT).unwrap();
    assert_eq!(me.reserve_child(), Err(Errno::AGAIN));
    sound(&pool);
    me.shmdt(ids[1]).unwrap();
    me.shmat(ids[3], true, false, &ROOT).unwrap();
    for id in ids {
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn undo_records_run_out_and_come_back() {
    let pool = pool_of(Geometry { undos: 2, ..small() });
    let me = join(&pool, 10);
    let sets: Vec<i32> = (0..3).map(|_| me.set(1)).collect();
    me.op(sets[0], &[undone(up(0))]).unwrap();
    me.op(sets[1], &[undone(up(0))]).unwrap();
    assert_eq!(me.op(sets[2], &[undone(up(0))]), Err(Errno::NOSPC));
    assert_eq!(me.value(sets[2], 0), 0);
    me.set_remove(sets[0], &ROOT).unwrap();
    me.op(sets[2], &[undone(up(0))]).unwrap();
    sound(&pool);
    me.set_remove(sets[1], &ROOT).unwrap();
    me.set_remove(sets[2], &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn clients_domains_and_threads_run_out_with_a_sentence() {
    let pool = pool_of(Geometry { clients: 2, domains: 2, threads: 4, ..small() });
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 10));
    let third = Client::join(pool.clone(), &domain("a"), process(11), None, WakeScope::Kernel);
    assert!(matches!(third, Err(JoinError::Full { table: "clients", count: 2 })), "{third:?}");
    let third = Client::join(pool.clone(), &domain("c"), process(11), None, WakeScope::Kernel);
    assert!(matches!(third, Err(JoinError::Full { table: "domains", count: 2 })), "{third:?}");
    sound(&pool);
    me.reap(other.client_id()).unwrap();
    me.reap_domain(other.domain()).unwrap();
    let again = join_in(&pool, "c", 11);
    let id = me.set(1);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| me.op(id, &[down(0)]))).collect();
        until("asleep", || asleep(&pool) == 3);
        again.op(id, &[by(0, 3)]).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

/// The last slot is for those that do not sleep.
#[test]
fn sleepers_leave_a_slot_to_the_thread_that_wakes_them() {
    let pool = pool_of(Geometry { threads: 4, ..small() });
    let me = join(&pool, 10);
    let id = me.set(1);
    let other = me.set(2);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| me.op(id, &[down(0)]))).collect();
        until("asleep", || asleep(&pool) == 3);
        assert_eq!(me.op(id, &[down(0)]), Err(Errno::NOMEM), "it would sleep");
        assert_eq!(me.op(id, &[now(down(0))]), Err(Errno::AGAIN));
        assert_eq!(me.op(other, &[up(0), up(1)]), Ok(()));
        sound(&pool);
        me.op(id, &[by(0, 3)]).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    // The slot that was lent is the pool's again, and others can be slept in.
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| me.op(id, &[down(0)]));
        until("asleep", || asleep(&pool) == 1);
        me.op(id, &[up(0)]).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    sound(&pool);
    for id in [id, other] {
        me.set_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn semmns_bounds_all_semaphores_together() {
    let pool = pool_of(Geometry { semmns: 10, semmsl: 6, ..small() });
    let me = join(&pool, 10);
    let (first, second) = (me.set(6), me.set(3));
    assert_eq!(me.semget(PRIVATE, 2, 0o600, &ROOT), Err(Errno::NOSPC));
    let third = me.set(1);
    assert_eq!(me.semget(PRIVATE, 1, 0o600, &ROOT), Err(Errno::NOSPC));
    me.set_remove(second, &ROOT).unwrap();
    let fourth = me.set(3);
    sound(&pool);
    for id in [first, third, fourth] {
        me.set_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}
