//! Short messages that lie in the slots of a ring, and the chunks that are in reserve for them.

use crate::fixture::*;
use vshmem_ipc::{Client, Errno};

/// A queue that has its reserve: so many messages have to be sent before it is provided.
fn stocked(me: &Client) -> i32 {
    let id = me.queue();
    for _ in 0..300 {
        me.send(id, 1, b"x").unwrap();
        me.receive(id, 1).unwrap();
    }
    id
}

#[test]
fn texts_and_types_of_every_length_come_out_as_they_went_in() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = stocked(&me);
    for size in 0..=17 {
        for kind in [1, 4711, (1 << 22) - 1, 1 << 22, i64::MAX] {
            let text: Vec<u8> = (0..size).map(|n| 0xff - n).collect();
            me.send(id, kind, &text).unwrap();
            sound(&pool);
            assert_eq!(me.queue_stat(id, &ROOT).unwrap().bytes, u32::from(size));
            assert_eq!(me.receive_now(id, kind).unwrap(), (kind, text));
        }
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn short_messages_take_no_chunk_each() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = stocked(&me);
    let chunks = || (room(&pool).chunks_in_objects, room(&pool).chunks_held);
    let before = chunks();
    assert_eq!(before.0, 8, "in reserve");
    for n in 0..8_u8 {
        other.send(id, 1, &[n; 8]).unwrap();
    }
    assert_eq!(chunks(), before);
    // They stay when their sender has gone.
    me.reap(other.client_id()).unwrap();
    for n in 0..8_u8 {
        assert_eq!(me.receive(id, 0).unwrap().1, [n; 8]);
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

/// A receiver of another type that goes to sleep closes the tail of the ring for a moment, and in a
/// full ring that is the slot of the oldest message.
#[test]
fn messages_stay_as_they_are_when_receivers_go_to_sleep_beside_a_full_ring() {
    let pool = pool();
    let me = &join(&pool, 10);
    let id = stocked(me);
    let text = |n: i64| n.to_ne_bytes()[..8 - n as usize % 2].to_vec();
    for n in 0..8 {
        me.send(id, 1 + n, &text(n)).unwrap();
    }
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..=20_i64)
            .map(|n| {
                let waiter = scope.spawn(move || me.receive(id, 100 + n));
                until("asleep", || asleep(&pool) == n as usize);
                sound(&pool);
                waiter
            })
            .collect();
        let messages: Vec<_> = (0..8).map(|_| me.receive_now(id, 0)).collect();
        for (n, waiter) in (1..).zip(waiters) {
            me.send(id, 100 + n, &text(n)).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok((100 + n, text(n))));
        }
        assert_eq!(messages, (0..8).map(|n| Ok((1 + n, text(n)))).collect::<Vec<_>>());
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, me);
}

#[test]
fn messages_in_slots_and_in_chunks_go_to_the_list_in_order() {
    let pool = pool();
    let me = join(&pool, 10);
    for long_ones in 0..256_u32 {
        let id = stocked(&me);
        let text = |n: u8| vec![n; if long_ones >> n & 1 == 1 { 30 } else { 5 }];
        for n in 0..8 {
            me.send(id, 1 + i64::from(n % 3), &text(n)).unwrap();
        }
        // The first of them leaves a gap, the second makes all others leave the ring.
        assert_eq!(me.receive(id, 2).unwrap().1, text(1));
        assert_eq!(me.receive(id, -5).unwrap().1, text(0));
        if long_ones % 16 == 0 {
            sound(&pool);
        }
        for n in [3, 6, 4, 7, 2, 5] {
            assert_eq!(me.receive_now(id, -5).unwrap(), (1 + i64::from(n % 3), text(n)));
        }
        assert_eq!(room(&pool).chunks_in_objects, 0, "its reserve is free again");
        me.queue_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn short_messages_leave_the_ring_although_the_heap_is_full() {
    let pool = pool_of(vshmem_wire::Geometry { slabs: 3, ..small() });
    let me = join(&pool, 10);
    let other = me.queue();
    me.queue_change(other, 0, 0, 0o600, 1 << 20, &ROOT).unwrap();
    let id = stocked(&me);
    for n in 0..8_u8 {
        me.send(id, 1 + i64::from(n % 2), &[n; 8]).unwrap();
    }
    for size in [8000, 100] {
        while me.send_now(other, 1, &vec![9; size]).is_ok() {}
    }
    sound(&pool);
    let order = [0, 2, 4, 6, 1, 3, 5, 7];
    for n in order {
        assert_eq!(me.receive_now(id, -2).unwrap(), (1 + i64::from(n % 2), vec![n; 8]));
    }
    while me.receive_now(other, 0).is_ok() {}
    for id in [id, other] {
        me.queue_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_queue_gives_its_reserve_up_where_the_heap_is_full() {
    let pool = pool_of(vshmem_wire::Geometry { slabs: 3, ..small() });
    let me = join(&pool, 10);
    let queues: Vec<i32> = (0..12).map(|_| stocked(&me)).collect();
    me.send(queues[5], 7, b"still").unwrap();
    let other = me.queue();
    me.queue_change(other, 0, 0, 0o600, 1 << 20, &ROOT).unwrap();
    while me.send_now(other, 1, &[9; 100]).is_ok() {}
    let kept = room(&pool).chunks_in_objects - me.queue_stat(other, &ROOT).unwrap().count;
    assert_eq!(kept, 1, "the message");
    sound(&pool);
    assert_eq!(me.receive_now(queues[5], 0).unwrap(), (7, b"still".to_vec()));
    while me.receive_now(other, 0).is_ok() {}
    // And they go on without.
    for id in queues {
        me.send(id, 1, b"y").unwrap();
        assert_eq!(me.receive_now(id, 0).unwrap().1, b"y");
        assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG));
        me.queue_remove(id, &ROOT).unwrap();
    }
    me.queue_remove(other, &ROOT).unwrap();
    empty(&pool, &me);
}
