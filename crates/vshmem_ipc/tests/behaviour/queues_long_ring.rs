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

#[test]
fn long_rings_have_few_slabs_of_their_own_and_the_others_stay_free() {
    // One slab of eight: 64 rings.
    let pool = pool_of(vshmem_wire::Geometry { slabs: 8, msgmni: 100, ..small() });
    let me = join(&pool, 10);
    let queues: Vec<i32> = (0..100).map(|_| me.queue()).collect();
    for &id in &queues {
        for n in 0..12 {
            me.send(id, 1, &[n; 1000]).unwrap();
        }
        for n in 0..12 {
            assert_eq!(me.receive(id, 0).unwrap().1, [n; 1000]);
        }
    }
    for id in queues {
        me.queue_remove(id, &ROOT).unwrap();
    }
    assert_eq!(room(&pool).long_rings, 64);
    sound(&pool);
    // All other slabs can serve any size.
    let id = me.queue();
    me.queue_change(id, 0, 0, 0o600, 1 << 20, &ROOT).unwrap();
    let mut sent = 0;
    while me.send_now(id, 1, &[9; 8000]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 6 * 7, "seven slabs but one, where this process keeps a chunk");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_long_ring_is_left_for_messages_whose_bytes_would_be_counted_in_it() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    lengthen_ring(&me, id);
    let trip = |size: usize| {
        me.send(id, 1, &vec![3; size]).unwrap();
        assert_eq!(me.receive(id, 0).unwrap(), (1, vec![3; size]));
    };
    trip(256);
    assert!(uses_long_ring(&me, id), "256 is a 64th of the limit");
    trip(257);
    assert!(!uses_long_ring(&me, id));
    trip(300);
    sound(&pool);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_long_ring_that_cannot_be_where_its_queue_says_is_none() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.queue();
    lengthen_ring(&me, id);
    let row = pool.objects(vshmem_ipc::Kind::Queue).unwrap()[0];
    let slot = pool.layout().msg.at(row.index).unwrap();
    let at = vshmem_wire::field!(slot, vshmem_wire::MsgSlot, long_ring);
    let units = pool.layout().unit_meta.count;
    // The last begins in the heap, and does not end there.
    for word in [0xffff_ffff, units, units - 6] {
        pool.map().store(at.word(), word, vshmem_mem::Ordering::Relaxed).unwrap();
        let findings = pool.check().unwrap();
        assert!(!findings.is_empty(), "{word}");
        assert!(other.send_now(id, 1, b"x").is_err(), "{word}");
        let another = other.queue();
        other.send(another, 1, b"x").unwrap();
        assert_eq!(other.receive(another, 0).unwrap(), (1, b"x".to_vec()));
        other.queue_remove(another, &ROOT).unwrap();
        let _ = pool.object_activities().unwrap();
    }
}
