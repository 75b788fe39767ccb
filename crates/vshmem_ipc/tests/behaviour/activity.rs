use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::{Awaited, Client, Errno, Kind, ObjectActivity, Pool};

/// What has been done with an object since it was made.
fn done(pool: &Pool, id: i32) -> u64 {
    let rows = pool.object_activities().expect("a list");
    rows.iter().find(|row| row.id == id).expect("the object").count
}

fn waits(pool: &Pool) -> (u32, u32) {
    let rows = pool.thread_activities().expect("a list");
    rows.iter().fold((0, 0), |sum, row| (sum.0 + row.waits, sum.1 + row.wakeups))
}

#[test]
fn operations_without_the_lock_are_counted_exactly() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(3);
    assert_eq!(done(&pool, id), 0, "a new set");
    for _ in 0..100 {
        me.op(id, &[up(0)]).unwrap();
        other.op(id, &[undone(down(0))]).unwrap();
    }
    assert_eq!(done(&pool, id), 200, "single operations");
    for _ in 0..100 {
        me.op(id, &[up(0), up(1)]).unwrap();
        other.op(id, &[down(1)]).unwrap();
        me.op(id, &[up(2), by(2, 2)]).unwrap();
        other.op(id, &[by(2, -3), down(0)]).unwrap();
    }
    assert_eq!(done(&pool, id), 200 + 600, "arrays: one for each semaphore");
    assert!(me.op(id, &[now(down(1))]).is_err());
    me.put(id, 1, 5);
    assert_eq!(done(&pool, id), 800, "what is refused, and SETVAL, are no operations");
    me.set_remove(id, &ROOT).unwrap();
    let id = me.set(2);
    assert_eq!(done(&pool, id), 0, "another set in the same slot");
    me.op(id, &[undone(up(0))]).unwrap();
    me.reap(other.client_id()).unwrap();
    me.apply_adjustments().unwrap();
    assert_eq!(done(&pool, id), 1, "adjustments are no operations");
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn operations_under_the_lock_are_counted_exactly() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(2);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| me.op(id, &[down(0), zero(1)]));
            until("a waiter", || asleep(&pool) == 1);
            other.op(id, &[up(0)]).unwrap();
            waiter.join().unwrap().unwrap();
        });
    }
    assert_eq!(done(&pool, id), 20 * 3);
    assert_eq!(waits(&pool), (20, 20));
    let timeout = Some(Duration::from_millis(3));
    assert!(me.semop(id, &[down(0)], timeout, &ROOT).is_err());
    assert_eq!(done(&pool, id), 60, "a timeout is no operation");
    assert_eq!(waits(&pool), (21, 20), "and no wake-up");
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn what_a_change_had_no_room_for_is_not_counted() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(100);
    me.op(id, &[up(0)]).unwrap();
    let mut others = Vec::new();
    for count in [32_000, 4_000] {
        while let Ok(other) = me.semget(PRIVATE, count, 0o600, &ROOT) {
            others.push(other);
        }
    }
    // So many words need a longer record, and that room in the heap.
    assert_eq!(me.set_semaphores(id, &|_| 1, &ROOT), Err(Errno::NOMEM));
    assert_eq!(done(&pool, id), 1);
    for other in others {
        me.set_remove(other, &ROOT).unwrap();
    }
    me.set_semaphores(id, &|_| 1, &ROOT).unwrap();
    assert_eq!(done(&pool, id), 1);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn operations_of_threads_that_meet_are_counted_exactly() {
    const TURNS: u64 = 3000;
    let pool = pool();
    let members: Vec<Client> = (0..3).map(|pid| join(&pool, 10 + pid)).collect();
    let id = members[0].set(4);
    members[0].op(id, &[up(3)]).unwrap();
    std::thread::scope(|scope| {
        for (nth, me) in members.iter().enumerate() {
            let mine = nth as u16;
            scope.spawn(move || {
                for turn in 0..TURNS {
                    // A lock that all of them want, and arrays over semaphores that they share.
                    me.op(id, &[undone(down(3))]).unwrap();
                    me.op(id, &[undone(up(3))]).unwrap();
                    if turn % 2 == 0 {
                        me.op(id, &[up(mine), up((mine + 1) % 3)]).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(done(&pool, id), 1 + 3 * TURNS * 3);
    members[0].set_remove(id, &ROOT).unwrap();
    empty(&pool, &members[0]);
}

#[test]
fn messages_are_counted_exactly_whichever_way_they_take() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    assert_eq!(done(&pool, id), 0, "a new queue");
    for _ in 0..100 {
        me.send(id, 1, b"through the ring").unwrap();
        other.receive(id, 0).unwrap();
    }
    assert_eq!(done(&pool, id), 100);
    // More than the ring holds go to the list, and the ring opens again.
    for _ in 0..10 {
        for _ in 0..12 {
            me.send(id, 1, b"12345678").unwrap();
        }
        assert_eq!(other.receive_now(id, -9).unwrap().1, b"12345678");
        for _ in 0..11 {
            other.receive(id, 0).unwrap();
        }
    }
    assert_eq!(done(&pool, id), 220);
    // To a receiver that sleeps, beside the ring and in the list.
    for wanted in [0, 7, -3] {
        for _ in 0..10 {
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| other.receive(id, wanted));
                until("a waiter", || asleep(&pool) == 1);
                me.send(id, wanted.abs().max(1), b"handed over").unwrap();
                waiter.join().unwrap().unwrap();
            });
        }
    }
    assert_eq!(done(&pool, id), 250);
    assert!(me.send_now(id, 0, b"no type").is_err());
    assert_eq!(done(&pool, id), 250);
    me.queue_remove(id, &ROOT).unwrap();
    let id = me.queue();
    assert_eq!(done(&pool, id), 0, "another queue in the same slot");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_stream_of_messages_is_counted_exactly_and_its_sizes_are_seen() {
    const MESSAGES: u64 = 20_000;
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..MESSAGES).for_each(|_| me.send(id, 1, &[7; 200]).unwrap()));
        scope.spawn(|| (0..MESSAGES).for_each(|_| assert_eq!(other.receive(id, 0).unwrap().0, 1)));
    });
    let rows = pool.object_activities().unwrap();
    let row = rows.iter().find(|row| row.kind == Kind::Queue && row.id == id).unwrap();
    assert_eq!(row.count, MESSAGES);
    assert_eq!(row.bytes_seen, u64::from(row.messages_seen) * 200);
    me.send(id, 1, &[7; 200]).unwrap();
    let rows = pool.object_activities().unwrap();
    let row = rows.iter().find(|row| row.id == id).unwrap();
    assert!(row.messages_seen > 0);
    assert_eq!(row.bytes_seen, u64::from(row.messages_seen) * 200);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_reading_that_was_too_high_does_not_let_a_count_fall() {
    let row = |kind, count, modulus| ObjectActivity {
        kind,
        id: 1,
        count,
        modulus,
        messages_seen: 0,
        bytes_seen: 0,
    };
    let set = |count| row(Kind::Semaphore, count, 0);
    for (earlier, now, shown) in [(7, 6, 7), (7, 7, 7), (7, 9, 9)] {
        assert_eq!(set(now).not_below(&set(earlier)).count, shown);
    }
    // What wraps begins anew.
    let queue = |count| row(Kind::Queue, count, 1 << 32);
    assert_eq!(queue(1).not_below(&queue((1 << 32) - 1)).count, 1);
}

#[test]
fn who_waits_for_what_and_whom_is_told() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let (set, queue) = (me.set(2), me.queue());
    other.op(set, &[up(1)]).unwrap();
    other.op(set, &[down(1)]).unwrap();
    other.send(queue, 1, b"x").unwrap();
    me.receive(queue, 0).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| me.op(set, &[down(1)]));
        until("one asleep", || asleep(&pool) == 1);
        let second = scope.spawn(|| me.receive(queue, 0));
        until("two asleep", || asleep(&pool) == 2);
        let rows = pool.thread_activities().unwrap();
        let mut found: Vec<_> = rows.iter().filter_map(|row| row.wait).collect();
        found.sort_by_key(|wait| wait.kind as u32);
        assert_eq!((found[0].kind, found[0].id), (Kind::Semaphore, set));
        assert_eq!(found[0].awaited, Awaited::Semaphore { number: 1, zero: false });
        assert_eq!((found[1].id, found[1].awaited), (queue, Awaited::Message));
        for wait in found {
            assert_eq!(wait.last.map(|last| (last.domain, last.pid)), Some((other.domain(), 11)));
        }
        other.op(set, &[up(1)]).unwrap();
        other.send(queue, 1, b"y").unwrap();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
    });
    me.queue_remove(queue, &ROOT).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}
