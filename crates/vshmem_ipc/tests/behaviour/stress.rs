//! Several clients of several domains at once: what goes in comes out.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fixture::*;
use vshmem_ipc::{Client, Errno};

#[test]
fn tokens_are_conserved_between_clients_and_domains() {
    let pool = pool();
    let all_clients: Vec<_> =
        (0..4).map(|n| join_in(&pool, ["a", "a", "b", "c"][n], 10 + n as u32)).collect();
    let id = all_clients[0].set(3);
    all_clients[0].put(id, 0, 6);
    std::thread::scope(|scope| {
        for (n, me) in all_clients.iter().enumerate() {
            for thread in 0..2 {
                scope.spawn(move || {
                    for round in 0..1500usize {
                        let (from, to) =
                            ((n + round) as u16 % 3, (n + round + 1 + thread) as u16 % 3);
                        let result = match round % 4 {
                            0 => me.op(id, &[now(down(from)), up(to)]),
                            1 => me.op(id, &[undone(now(down(from))), undone(up(to))]),
                            2 => me.op(id, &[now(down(from))]).and_then(|()| me.op(id, &[up(to)])),
                            _ => me.semop(
                                id,
                                &[down(from), up(to)],
                                Some(std::time::Duration::from_micros(200)),
                                &ROOT,
                            ),
                        };
                        assert!(matches!(result, Ok(()) | Err(Errno::AGAIN)), "{result:?}");
                    }
                });
            }
        }
    });
    sound(&pool);
    let sum: u32 = (0..3).map(|n| all_clients[0].value(id, n)).sum();
    assert_eq!(sum, 6);
    all_clients[0].set_remove(id, &ROOT).unwrap();
    empty(&pool, &all_clients[0]);
}

#[test]
fn a_semaphore_passes_between_two_that_sleep() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 10));
    let id = me.set(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                me.op(id, &[up(0)]).unwrap();
                me.op(id, &[down(1)]).unwrap();
            }
        });
        for _ in 0..2000 {
            other.op(id, &[down(0)]).unwrap();
            other.op(id, &[up(1)]).unwrap();
        }
    });
    sound(&pool);
    assert_eq!((me.value(id, 0), me.value(id, 1)), (0, 0));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn every_message_arrives_once_and_in_order_of_its_type() {
    const SENDERS: usize = 4;
    const EACH: u64 = 2000;
    let pool = pool();
    let all_clients: Vec<_> =
        (0..4).map(|n| join_in(&pool, ["a", "b", "b", "c"][n], 10 + n as u32)).collect();
    let id = all_clients[0].queue();
    all_clients[0].queue_change(id, 0, 0, 0o600, 512, &ROOT).unwrap();
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (n, me) in all_clients.iter().enumerate() {
            scope.spawn(move || {
                for nth in 0..EACH {
                    let mut text = nth.to_ne_bytes().to_vec();
                    text.resize(8 + nth as usize % 90, n as u8);
                    me.send(id, n as i64 + 1, &text).unwrap();
                }
            });
            let sum = &sum;
            scope.spawn(move || {
                // Each receiver takes the messages of one sender, so their order can be seen.
                for nth in 0..EACH {
                    let (kind, text) = me.receive(id, (n as i64 + 1) % SENDERS as i64 + 1).unwrap();
                    assert_eq!(kind, (n as i64 + 1) % SENDERS as i64 + 1);
                    assert_eq!(text[..8], nth.to_ne_bytes());
                    assert!(text[8..].iter().all(|byte| i64::from(*byte) == kind - 1));
                    sum.fetch_add(nth, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), SENDERS as u64 * EACH * (EACH - 1) / 2);
    sound(&pool);
    assert_eq!(all_clients[0].queue_stat(id, &ROOT).unwrap().count, 0);
    all_clients[0].queue_remove(id, &ROOT).unwrap();
    empty(&pool, &all_clients[0]);
}

/// One object of each kind of a key, used and removed, while others do the same.
fn make_and_remove(me: &Client, key: i32, round: usize) {
    let gone = |error: &Errno| {
        matches!(*error, Errno::INVAL | Errno::IDRM | Errno::EXIST | Errno::NOENT | Errno::NOSPC)
    };
    let flags = if round.is_multiple_of(3) { CREATE | EXCLUSIVE } else { CREATE };
    match me.segment(key, 4096 * (1 + round as u64 % 3), flags) {
        Ok(id) => {
            if let Err(error) = me.shmat(id, true, false, &ROOT) {
                assert!(gone(&error), "{error:?}");
            } else {
                me.shmdt(id).unwrap();
            }
            if let Err(error) = me.segment_remove(id, &ROOT) {
                assert!(gone(&error), "{error:?}");
            }
        }
        Err(error) => assert!(gone(&error), "{error:?}"),
    }
    match me.semget(key, 3, flags | 0o600, &ROOT) {
        Ok(id) => {
            let call = [undone(up(0)), up(1)];
            if let Err(error) = me.op(id, &call[..1 + round % 2]) {
                assert!(gone(&error), "{error:?}");
            }
            if let Err(error) = me.set_remove(id, &ROOT) {
                assert!(gone(&error), "{error:?}");
            }
        }
        Err(error) => assert!(gone(&error), "{error:?}"),
    }
    match me.msgget(key, flags | 0o600, &ROOT) {
        Ok(id) => {
            if let Err(error) = me.send_now(id, 1, &vec![1; round]) {
                assert!(gone(&error), "{error:?}");
            }
            if let Err(error) = me.queue_remove(id, &ROOT) {
                assert!(gone(&error), "{error:?}");
            }
        }
        Err(error) => assert!(gone(&error), "{error:?}"),
    }
}

#[test]
fn objects_are_made_and_removed_by_all_clients_at_once() {
    let pool = pool();
    let all_clients: Vec<_> =
        (0..4).map(|n| join_in(&pool, ["a", "a", "b", "c"][n], 10 + n as u32)).collect();
    std::thread::scope(|scope| {
        for (n, me) in all_clients.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..1500usize {
                    make_and_remove(me, 1 + ((n + round) % 5) as i32, round);
                }
            });
        }
    });
    sound(&pool);
    let me = &all_clients[0];
    for key in 1..=5 {
        let _ = me.segment(key, 0, 0).map(|id| me.segment_remove(id, &ROOT));
        let _ = me.semget(key, 0, 0, &ROOT).map(|id| me.set_remove(id, &ROOT));
        let _ = me.msgget(key, 0, &ROOT).map(|id| me.queue_remove(id, &ROOT));
    }
    empty(&pool, me);
}

/// Single operations with SEM_UNDO do without the lock. Threads of the same client, of others, and
/// changes under the lock meet on the same semaphores; reaping then takes back exactly what its
/// client has done.
#[test]
fn what_threads_and_clients_do_with_undo_at_once_is_taken_back_exactly() {
    const SEMAPHORES: u16 = 2;
    let pool = pool();
    let all_clients: Vec<_> =
        (0..3).map(|n| join_in(&pool, ["a", "a", "b"][n], 10 + n as u32)).collect();
    let last = join(&pool, 20);
    let id = last.set(i32::from(SEMAPHORES));
    for number in 0..SEMAPHORES {
        last.put(id, number.into(), 10_000);
    }
    std::thread::scope(|scope| {
        for (n, me) in all_clients.iter().enumerate() {
            for thread in 0..2 {
                scope.spawn(move || {
                    for round in 0..6000usize {
                        let number = (round / 3 + thread) as u16 % SEMAPHORES;
                        let change = [3, -1, -1, 2, -2][(round + n) % 5];
                        let one = undone(by(number, change));
                        match round % 50 {
                            0 => me.op(id, &[one, undone(up(0))]).unwrap(),
                            1 => assert!(me.semaphore_pid(id, number.into(), &ROOT).is_ok()),
                            2 => me.op(id, &[by(number, 1)]).unwrap(),
                            3 => me.op(id, &[by(number, -1)]).unwrap(),
                            _ => me.op(id, &[one]).unwrap(),
                        }
                    }
                });
            }
        }
        scope.spawn(|| {
            for _ in 0..500 {
                last.semaphore_values(id, &ROOT, |_, _| ()).unwrap();
                sound(&pool);
            }
        });
    });
    sound(&pool);
    for me in &all_clients {
        last.reap(me.client_id()).unwrap();
    }
    for number in 0..SEMAPHORES {
        assert_eq!(last.value(id, number.into()), 10_000);
    }
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}
