//! Messages that go through the ring of their queue, and what makes them leave it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::fixture::*;
use vshmem_ipc::{Errno, Receive, SHORT_BYTES};

#[test]
fn messages_of_a_sender_that_died_arrive() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    for n in 0..5 {
        other.send(id, 1 + n, &[n as u8; 20]).unwrap();
    }
    assert_eq!(me.receive(id, 0).unwrap().0, 1);
    me.reap(other.client_id()).unwrap();
    sound(&pool);
    assert_eq!(me.queue_stat(id, &ROOT).unwrap().count, 4);
    for n in 1..5 {
        assert_eq!(me.receive_now(id, 0).unwrap(), (1 + n, vec![n as u8; 20]));
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_sender_that_was_thought_dead_sends_nothing_with_what_it_held() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    other.send(id, 1, b"before").unwrap();
    assert_eq!(me.receive(id, 0).unwrap().1, b"before");
    me.reap(other.client_id()).unwrap();
    sound(&pool);
    // The chunk that its message went with is free, and may be any client's.
    assert_eq!(room(&pool).chunks_held, 0);
    me.send(id, 1, b"mine").unwrap();
    assert_eq!(me.receive(id, 0).unwrap().1, b"mine");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_evicted_member_neither_sends_nor_receives() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 20));
    let id = me.queue();
    other.send(id, 1, b"before").unwrap();
    me.evict_domain(other.domain()).unwrap();
    assert_eq!(other.send(id, 1, b"late"), Err(Errno::IO));
    assert_eq!(other.receive_now(id, 0), Err(Errno::IO));
    assert_eq!(me.receive(id, 0).unwrap().1, b"before");
    assert_eq!(other.receive_now(id, 0), Err(Errno::IO));
    sound(&pool);
    me.queue_remove(id, &ROOT).unwrap();
    me.reap_domain(other.domain()).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_ninth_message_waits_behind_the_eight() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    for round in 0..5_u8 {
        for n in 0..20 {
            let sender = if n % 3 == 0 { &me } else { &other };
            sender.send(id, 7, &[round, n]).unwrap();
            sound(&pool);
        }
        for n in 0..20 {
            let receiver = if n % 2 == 0 { &me } else { &other };
            assert_eq!(receiver.receive(id, 0).unwrap(), (7, vec![round, n]));
            sound(&pool);
        }
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_receiver_that_enters_the_wait_queue_gets_the_next_message() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.queue();
    std::thread::scope(|scope| {
        for kind in [3, -3, 0] {
            let me = &me;
            let receiver = scope.spawn(move || me.receive(id, kind));
            until("asleep", || asleep(&pool) == 1);
            sound(&pool);
            other.send(id, 3, b"wake up").unwrap();
            assert_eq!(receiver.join().unwrap().unwrap(), (3, b"wake up".to_vec()));
            sound(&pool);
            // And after it messages need no sleeping receiver.
            other.send(id, 4, b"next").unwrap();
            assert_eq!(me.receive_now(id, 4).unwrap(), (4, b"next".to_vec()));
        }
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_queue_that_was_removed_and_made_again_begins_empty() {
    let pool = pool();
    let me = join(&pool, 10);
    for round in 0..40 {
        let id = me.queue();
        assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG), "round {round}");
        for n in 0..round % 11 {
            me.send(id, 1, &[n as u8; 8]).unwrap();
        }
        if round % 3 == 0 {
            let _ = me.receive_now(id, 0);
        }
        me.queue_remove(id, &ROOT).unwrap();
        assert_eq!(me.send(id, 1, b"late"), Err(Errno::INVAL));
        sound(&pool);
        assert_eq!(room(&pool).chunks_in_objects, 0);
    }
    empty(&pool, &me);
}

#[test]
fn what_rings_keep_for_later_is_room_when_the_heap_is_full() {
    let pool = pool_of(vshmem_wire::Geometry { slabs: 3, ..small() });
    let me = join(&pool, 10);
    // Eight chunks of every queue's ring: 128 of one slab.
    let queues: Vec<i32> = (0..16).map(|_| me.queue()).collect();
    for id in &queues {
        for n in 0..8 {
            me.send(*id, 1, &[n; 400]).unwrap();
        }
        for n in 0..8 {
            assert_eq!(me.receive(*id, 0).unwrap().1, [n; 400]);
        }
    }
    let other = queues[3];
    me.queue_change(other, 0, 0, 0o600, 1 << 20, &ROOT).unwrap();
    let mut sent = 0;
    while me.send_now(other, 1, &[9; 8000]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 21, "three slabs of seven");
    while me.receive_now(other, 0).is_ok() {}
    for id in queues {
        me.queue_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_small_limit_holds_for_short_messages_too() {
    let mut geometry = small();
    geometry.msgmnb = 64;
    let pool = pool_of(geometry);
    let me = join(&pool, 10);
    let id = me.queue();
    me.send_now(id, 1, &[1; 60]).unwrap();
    assert_eq!(me.send_now(id, 1, &[1; 5]), Err(Errno::AGAIN));
    me.send_now(id, 1, &[1; 4]).unwrap();
    sound(&pool);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn what_one_may_not_do_is_refused_before_anything_happens() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    let nobody = User(5);
    assert_eq!(me.msgsnd(id, 1, b"x", false, &nobody), Err(Errno::ACCESS));
    me.send(id, 1, b"x").unwrap();
    let wanted = Receive { no_wait: true, ..of_type(0) };
    assert_eq!(me.msgrcv(id, wanted, &nobody, &mut |_, size, _| Ok(size)), Err(Errno::ACCESS));
    me.receive(id, 0).unwrap();
    assert_eq!(me.msgrcv(id, wanted, &nobody, &mut |_, size, _| Ok(size)), Err(Errno::ACCESS));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_short_way_of_a_message_is_left_for_whatever_stands_in_it() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    assert!(!me.msgsnd_at_once(id, 1, b"x", &ROOT), "it is not known whose queue this is");
    // So that every slot has a chunk for the next message, and the queue some in reserve.
    for round in 0..100 {
        me.send(id, 1, &vec![1; if round < 50 { 1 } else { 30 }]).unwrap();
        me.receive(id, 1).unwrap();
    }
    let send = |kind: i64, text: &[u8]| me.msgsnd_at_once(id, kind, text, &ROOT);
    let receive = |wanted: Receive| {
        let mut got = (0, Vec::new());
        let deliver = |kind: i64, text: &[u8]| got = (kind, text.to_vec());
        let bytes = me.msgrcv_at_once(id, wanted, &ROOT, |_| true, deliver)?;
        assert_eq!(bytes, got.1.len());
        Some(got)
    };
    let (nobody, any) = (User(5), of_type(0));
    for size in [9, 64, 65, 88] {
        assert!(!send(0, &vec![2; size]) && !send(-1, &vec![2; size]), "no type");
        assert!(!me.msgsnd_at_once(id, 1, &vec![2; size], &nobody), "it may not");
        assert!(send(4, &vec![2; size]), "{size}");
        assert_eq!(me.msgrcv_at_once(id, any, &nobody, |_| true, |_, _| ()), None, "it may not");
        let refused = me.msgrcv_at_once(id, any, &ROOT, |_| false, |_, _| unreachable!());
        assert_eq!(refused, None, "there is no place for it");
        assert_eq!(receive(Receive { copy: true, no_wait: true, ..any }), None);
        assert_eq!(receive(Receive { room: usize::MAX, ..any }), None);
        assert_eq!(receive(Receive { room: size - 1, ..any }), None);
        assert_eq!((receive(of_type(3)), receive(of_type(-4))), (None, None));
        assert_eq!(receive(Receive { except: true, ..of_type(4) }), None);
        let cut = Receive { room: size - 1, cut: true, ..of_type(4) };
        assert_eq!(receive(cut), Some((4, vec![2; size - 1])));
        assert_eq!(receive(any), None, "it is empty");
    }
    assert!(!send(1, &[3; SHORT_BYTES + 1]), "too long");
    // From the list.
    for n in 0..9 {
        me.send(id, 1, &[n; 20]).unwrap();
    }
    assert!(!send(1, &[9; 20]) && receive(any).is_none());
    me.queue_remove(id, &ROOT).unwrap();
    assert!(!send(1, b"x") && receive(any).is_none());
    empty(&pool, &me);
}

/// Senders, receivers of every kind, and a thread that closes the ring all the time: each message
/// arrives once, those of one sender in order.
#[test]
fn every_message_arrives_once_while_the_ring_is_closed_and_opened() {
    const EACH: u32 = 3000;
    let pool = pool();
    let all_clients: Vec<_> = (10..14).map(|pid| join(&pool, pid)).collect();
    let id = all_clients[0].queue();
    let left = AtomicU32::new(2 * EACH);
    let seen = std::thread::scope(|scope| {
        for (sender, me) in all_clients[..2].iter().enumerate() {
            scope.spawn(move || {
                for n in 0..EACH {
                    let mut text = vec![sender as u8];
                    text.extend(n.to_ne_bytes());
                    text.resize(5 + (n as usize * 7) % 500, n as u8);
                    me.send(id, 1 + i64::from(n % 2), &text).unwrap();
                }
            });
        }
        let receivers: Vec<_> = all_clients[2..]
            .iter()
            .map(|me| {
                let left = &left;
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    while left.load(Ordering::Relaxed) > 0 {
                        match me.receive_now(id, 0) {
                            Ok((_, text)) => {
                                left.fetch_sub(1, Ordering::Relaxed);
                                seen.push(text);
                            }
                            Err(error) => assert_eq!(error, Errno::NOMSG),
                        }
                    }
                    seen
                })
            })
            .collect();
        scope.spawn(|| {
            let copy = Receive { copy: true, no_wait: true, ..of_type(0) };
            while left.load(Ordering::Relaxed) > 0 {
                let _ = all_clients[0].receive_as(id, copy);
                let stat = all_clients[0].queue_stat(id, &ROOT).unwrap();
                assert!(stat.count <= 2 * EACH);
                std::thread::yield_now();
            }
        });
        receivers.into_iter().map(|r| r.join().unwrap()).collect::<Vec<_>>()
    });
    all_once(seen, EACH);
    sound(&pool);
    all_clients[0].queue_remove(id, &ROOT).unwrap();
    empty(&pool, &all_clients[0]);
}

/// Whether two senders' texts have arrived once each, whole and in order.
fn all_once(seen: Vec<Vec<Vec<u8>>>, each: u32) {
    let mut all = Vec::new();
    for texts in seen {
        let mut last = [None; 2];
        for text in texts {
            let number = u32::from_ne_bytes(text[1..5].try_into().unwrap());
            assert_eq!(text.len(), 5 + (number as usize * 7) % 500);
            assert!(text[5..].iter().all(|byte| *byte == number as u8), "torn");
            let before = &mut last[usize::from(text[0])];
            assert!(before.is_none_or(|before| before < number), "out of order");
            *before = Some(number);
            all.push((text[0], number));
        }
    }
    all.sort_unstable();
    let expected: Vec<_> = (0..2).flat_map(|s| (0..each).map(move |n| (s, n))).collect();
    assert!(all == expected, "lost or doubled");
}
