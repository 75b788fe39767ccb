//! Messages of several types over one queue: each receiver takes its own from behind others, and
//! sleeps beside a ring that stays in use.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::fixture::*;
use vshmem_ipc::{Caller, Errno, Pool, Receive};
use vshmem_sync::load_word;
use vshmem_wire::{MsgSlot, field};

/// Whether the queue with that index uses its ring.
fn in_ring(pool: &Pool, index: u32) -> bool {
    let slot = pool.layout().msg.at(index).unwrap();
    let mode = load_word(pool.map(), field!(slot, MsgSlot, mode)).unwrap();
    mode & 1 == 0
}

/// Does something at the nth question for its user: in the midst of a call.
struct Meddler<F> {
    questions: AtomicU32,
    nth: u32,
    act: F,
}

impl<F: Fn()> Meddler<F> {
    fn at(nth: u32, act: F) -> Self {
        Self { questions: AtomicU32::new(0), nth, act }
    }
}

impl<F: Fn()> Caller for Meddler<F> {
    fn uid(&self) -> u32 {
        if self.questions.fetch_add(1, Ordering::Relaxed) + 1 == self.nth {
            (self.act)();
        }
        0
    }
    fn gid(&self) -> u32 {
        0
    }
    fn in_group(&self, _: u32) -> bool {
        false
    }
    fn owns_all(&self) -> bool {
        true
    }
    fn administers(&self) -> bool {
        true
    }
    fn unlimited(&self) -> bool {
        true
    }
}

#[test]
fn a_receiver_takes_its_type_from_behind_others_and_the_ring_stays() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    for round in 0..50 {
        for (kind, text) in [(1, b"a"), (2, b"b"), (1, b"c"), (3, b"d"), (2, b"e")] {
            me.send(id, kind, text).unwrap();
        }
        assert_eq!(other.receive(id, 2).unwrap().1, b"b");
        sound(&pool);
        assert_eq!(other.receive(id, 3).unwrap().1, b"d");
        assert_eq!(other.receive_now(id, 9), Err(Errno::NOMSG));
        let but_one = Receive { except: true, ..of_type(1) };
        assert_eq!(me.receive_as(id, but_one).unwrap().1, b"e");
        assert_eq!(me.queue_stat(id, &ROOT).unwrap().count, 2);
        me.send(id, 2, b"f").unwrap();
        assert_eq!(me.receive(id, -1).unwrap().1, b"a", "the lowest of all");
        assert_eq!(me.receive(id, 0).unwrap().1, b"c");
        assert_eq!(me.receive(id, 2).unwrap().1, b"f");
        sound(&pool);
        assert!(in_ring(&pool, 0), "round {round}");
    }
    // The oldest message stays; behind it there is room for seven more.
    me.send(id, 7, b"left").unwrap();
    for n in 0..7_u8 {
        me.send(id, 1, &[n]).unwrap();
        assert_eq!(other.receive(id, 1).unwrap().1, [n]);
        assert!(in_ring(&pool, 0));
        sound(&pool);
    }
    me.send(id, 1, b"ninth").unwrap();
    assert_eq!(other.receive(id, 1).unwrap().1, b"ninth");
    assert_eq!(other.receive(id, 0).unwrap().1, b"left");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_ring_stays_in_use_while_receivers_sleep() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.queue();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..6_u8)
            .map(|n| {
                let me = &me;
                let waiter = scope.spawn(move || me.receive(id, 1000 + i64::from(n)));
                until("one more asleep", || asleep(&pool) == usize::from(n) + 1);
                waiter
            })
            .collect();
        assert!(in_ring(&pool, 0));
        sound(&pool);
        for n in 0..30_u8 {
            other.send(id, 1, &[n]).unwrap();
            // Not its type, but it shares its bit with that of a waiter.
            other.send(id, 1032, &[n]).unwrap();
            assert_eq!(asleep(&pool), 6);
            assert_eq!(me.receive_now(id, 1), Ok((1, vec![n])));
            assert_eq!(me.receive_now(id, 1032), Ok((1032, vec![n])));
            assert_eq!(me.receive_now(id, 1000), Err(Errno::NOMSG));
        }
        assert!(in_ring(&pool, 0));
        sound(&pool);
        for (waiter, n) in waiters.into_iter().zip(0..6_u8) {
            other.send(id, 3, b"before").unwrap();
            other.send(id, 1000 + i64::from(n), &[n]).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok((1000 + i64::from(n), vec![n])));
            assert_eq!(me.receive(id, 3).unwrap().1, b"before");
            assert_eq!(me.queue_stat(id, &ROOT).unwrap().receiver, 10);
            sound(&pool);
        }
        assert!(in_ring(&pool, 0));
        // No type is awaited any more, whatever the queue says.
        for n in 0..6_u8 {
            other.send(id, 1000 + i64::from(n), &[n]).unwrap();
            assert_eq!(me.receive_now(id, 0), Ok((1000 + i64::from(n), vec![n])));
        }
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_list_that_becomes_empty_makes_way_for_the_ring_while_others_sleep() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    std::thread::scope(|scope| {
        let five = scope.spawn(|| me.receive(id, 5));
        until("asleep", || asleep(&pool) == 1);
        me.send(id, 2, &[1; 3000]).unwrap();
        me.send(id, 3, b"short").unwrap();
        // The lowest of several types is found in the list.
        assert_eq!(me.receive(id, -3).unwrap().1, [1; 3000]);
        assert!(!in_ring(&pool, 0));
        assert_eq!(me.receive(id, 3).unwrap().1, b"short");
        assert!(in_ring(&pool, 0));
        sound(&pool);
        me.send(id, 4, b"past").unwrap();
        me.send(id, 5, b"five").unwrap();
        assert_eq!(five.join().unwrap().unwrap().1, b"five");
        assert_eq!(me.receive(id, 0).unwrap().1, b"past");
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_receiver_beside_a_ring_is_released_with_the_queue() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    me.send(id, 1, b"not theirs").unwrap();
    std::thread::scope(|scope| {
        let waiters = [(3, false), (5, false), (4, true)].map(|(kind, except)| {
            let me = &me;
            scope.spawn(move || me.receive_as(id, Receive { except, ..of_type(kind) }))
        });
        // The one that accepts anything but 4 has the message: it may be the last that comes.
        until("the message is received", || me.queue_stat(id, &ROOT).unwrap().count == 0);
        until("two asleep", || asleep(&pool) == 2);
        sound(&pool);
        other.queue_remove(id, &ROOT).unwrap();
        let ends = waiters.map(|waiter| waiter.join().unwrap().map(|message| message.0));
        assert_eq!(ends, [Err(Errno::IDRM), Err(Errno::IDRM), Ok(1)]);
    });
    empty(&pool, &me);
}

#[test]
fn a_message_of_another_type_does_not_end_a_look_nor_hide_the_next() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    // The first question of a receiver is asked when it has found nothing and is about to look.
    let meddler = Meddler::at(1, || {
        other.send(id, 2, b"other").unwrap();
        other.send(id, 1, b"mine").unwrap();
    });
    let got = me.msgrcv(id, of_type(1), &meddler, &mut |kind, size, _| {
        assert_eq!((kind, size), (1, 4));
        Ok(size)
    });
    assert_eq!(got, Ok(4));
    assert!(in_ring(&pool, 0));
    // And one that comes too late for any look.
    std::thread::scope(|scope| {
        let only_other = Meddler::at(1, || other.send(id, 3, b"third").unwrap());
        let me = &me;
        let receiver =
            scope.spawn(move || me.msgrcv(id, of_type(1), &only_other, &mut |_, size, _| Ok(size)));
        until("asleep", || asleep(&pool) == 1);
        assert!(in_ring(&pool, 0));
        other.send(id, 1, b"late").unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(4));
    });
    assert_eq!(me.receive(id, 0).unwrap().1, b"other");
    assert_eq!(me.receive(id, 0).unwrap().1, b"third");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_queue_that_is_removed_while_a_receiver_looks_is_eidrm() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    for _ in 0..20 {
        let id = me.queue();
        let meddler = Meddler::at(1, || other.queue_remove(id, &ROOT).unwrap());
        let got = me.msgrcv(id, of_type(1), &meddler, &mut |_, size, _| Ok(size));
        assert_eq!(got, Err(Errno::IDRM));
    }
    empty(&pool, &me);
}

#[test]
fn a_signal_that_comes_while_a_receiver_looks_is_eintr() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    // The second question is asked after the look, before the receiver goes to sleep.
    let meddler = Meddler::at(2, vshmem_mem::signal_handled);
    let got = me.msgrcv(id, of_type(1), &meddler, &mut |_, size, _| Ok(size));
    assert_eq!((got, asleep(&pool)), (Err(Errno::INTR), 0));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

/// Clients that ask a server over one queue, each with answers of its own type; some look, some
/// sleep, and a thread closes the ring now and then.
#[test]
fn each_client_has_the_answers_to_its_own_questions_in_order() {
    const CLIENTS: i64 = 6;
    const EACH: u64 = 400;
    let pool = pool();
    let all_clients: Vec<_> = (0..=CLIENTS).map(|n| join(&pool, 10 + n as u32)).collect();
    let id = all_clients[0].queue();
    let number = |text: &[u8]| u64::from_ne_bytes(text[8..16].try_into().unwrap());
    std::thread::scope(|scope| {
        for (me, kind) in all_clients[1..].iter().zip(100..) {
            scope.spawn(move || {
                for n in 0..EACH {
                    let question = [kind as u64, n].map(u64::to_ne_bytes).concat();
                    me.send(id, 1, &question).unwrap();
                    let answer = me.receive(id, kind).unwrap();
                    assert_eq!((answer.0, number(&answer.1)), (kind, n));
                    if n % 50 == 0 {
                        me.queue_change(id, 0, 0, 0o600, 16384, &ROOT).unwrap();
                    }
                }
            });
        }
        for _ in 0..CLIENTS as u64 * EACH {
            let (_, question) = all_clients[0].receive(id, 1).unwrap();
            let kind = i64::from_ne_bytes(question[..8].try_into().unwrap());
            all_clients[0].send(id, kind, &question).unwrap();
        }
    });
    assert_eq!(all_clients[0].receive_now(id, 0), Err(Errno::NOMSG));
    sound(&pool);
    all_clients[0].queue_remove(id, &ROOT).unwrap();
    empty(&pool, &all_clients[0]);
}
