//! Queues that hold more messages than their ring has slots: the long ring.

use crate::fixture::*;
use vshmem_ipc::Errno;
use vshmem_wire::{LONG_RING_SLOTS, RING_SLOTS};

#[test]
fn a_queue_that_was_deeper_than_its_ring_comes_to_use_a_long_one() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    for _ in 0..100 {
        for _ in 0..RING_SLOTS {
            me.send(id, 1, b"x").unwrap();
        }
        for _ in 0..RING_SLOTS {
            me.receive(id, 0).unwrap();
        }
    }
    assert_eq!(room(&pool).long_rings, 0, "eight messages fit into the short one");
    assert!(!uses_long_ring(&me, id));
    lengthen_ring(&me, id);
    assert_eq!(room(&pool).long_rings, 1);
    sound(&pool);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn messages_come_in_order_out_of_a_long_ring_and_out_of_the_list_behind_it() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.queue();
    for messages in [1, RING_SLOTS + 1, LONG_RING_SLOTS, LONG_RING_SLOTS + 1, 200] {
        lengthen_ring(&me, id);
        for n in 0..messages {
            let sender = if n % 3 == 0 { &me } else { &other };
            sender.send(id, 7, &n.to_le_bytes()).unwrap();
            let stat = me.queue_stat(id, &ROOT).unwrap();
            assert_eq!((stat.count as usize, stat.bytes as usize), (n + 1, 8 * (n + 1)));
            sound(&pool);
        }
        assert_eq!(uses_long_ring(&me, id), messages <= LONG_RING_SLOTS, "{messages}");
        for n in 0..messages {
            let receiver = if n % 2 == 0 { &me } else { &other };
            assert_eq!(receiver.receive(id, 0).unwrap(), (7, n.to_le_bytes().to_vec()));
            sound(&pool);
        }
        assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG));
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_queue_that_is_always_deeper_than_its_long_ring_rarely_uses_it() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    lengthen_ring(&me, id);
    let mut turns_of_long_ring = 0;
    for _ in 0..300 {
        turns_of_long_ring += u32::from(uses_long_ring(&me, id));
        for _ in 0..=LONG_RING_SLOTS {
            me.send(id, 1, b"x").unwrap();
        }
        for _ in 0..=LONG_RING_SLOTS {
            me.receive(id, 0).unwrap();
        }
    }
    assert!((1..10).contains(&turns_of_long_ring), "{turns_of_long_ring}");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn receivers_take_their_types_from_anywhere_in_a_long_ring() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    lengthen_ring(&me, id);
    for n in 0..LONG_RING_SLOTS as u8 {
        me.send(id, i64::from(n % 16) + 1, &[n; 20]).unwrap();
    }
    for kind in (0..16_u8).rev() {
        for nth in 0..4 {
            let text = vec![nth * 16 + kind; 20];
            let kind = i64::from(kind) + 1;
            assert_eq!(me.receive(id, kind).unwrap(), (kind, text));
            sound(&pool);
        }
        assert_eq!(me.receive_now(id, i64::from(kind) + 1), Err(Errno::NOMSG));
    }
    assert!(uses_long_ring(&me, id));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_receiver_sleeps_beside_a_long_ring_and_is_woken() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.queue();
    lengthen_ring(&me, id);
    for n in 0..20_u8 {
        me.send(id, 2, &[n]).unwrap();
    }
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.receive(id, 3));
        until("asleep", || asleep(&pool) == 1);
        sound(&pool);
        assert!(uses_long_ring(&me, id));
        me.send(id, 2, b"another's").unwrap();
        me.send(id, 3, b"awaited").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), (3, b"awaited".to_vec()));
    });
    for n in 0..20_u8 {
        assert_eq!(me.receive(id, 0).unwrap(), (2, vec![n]));
    }
    assert_eq!(me.receive(id, 0).unwrap(), (2, b"another's".to_vec()));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_next_queue_of_a_slot_begins_empty_and_finds_the_long_ring() {
    let pool = pool();
    let me = join(&pool, 10);
    let mut used = 0;
    for round in 0..100_u8 {
        let id = me.queue();
        assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG));
        lengthen_ring(&me, id);
        for _ in 0..round {
            me.send(id, 1, &[round; 30]).unwrap();
        }
        me.queue_remove(id, &ROOT).unwrap();
        assert_eq!(me.send(id, 1, b"late"), Err(Errno::INVAL));
        sound(&pool);
        used = used.max(room(&pool).long_rings);
    }
    assert!(used <= pool.geometry().msgmni);
    empty(&pool, &me);
}

#[test]
fn numbers_of_messages_sent_go_on_from_ring_to_ring() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    let mut sent = 0_u64;
    for messages in [5_u64, 20, 64, 100, 3, 70, 9, 9, 9].repeat(20) {
        for _ in 0..messages {
            me.send(id, 1, b"x").unwrap();
        }
        for _ in 0..messages {
            me.receive(id, 0).unwrap();
        }
        sent += messages;
        let rows = pool.object_activities().unwrap();
        let row = rows.iter().find(|row| row.id == id).unwrap();
        assert_eq!(row.count, sent);
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}
