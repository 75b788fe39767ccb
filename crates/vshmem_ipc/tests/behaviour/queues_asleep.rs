use crate::fixture::*;
use vshmem_ipc::{Errno, Receive};

#[test]
fn a_message_goes_to_the_waiter_that_accepts_it() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.queue();
    std::thread::scope(|scope| {
        let three = scope.spawn(|| me.receive(id, 3));
        until("one asleep", || asleep(&pool) == 1);
        let any = scope.spawn(|| other.receive(id, 0));
        until("two asleep", || asleep(&pool) == 2);
        sound(&pool);
        me.send(id, 5, b"five").unwrap();
        assert_eq!(any.join().unwrap().unwrap(), (5, b"five".to_vec()));
        me.send(id, 3, b"three").unwrap();
        assert_eq!(three.join().unwrap().unwrap(), (3, b"three".to_vec()));
    });
    assert_eq!(me.queue_stat(id, &ROOT).unwrap().receiver, 10);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_waiter_with_too_small_a_buffer_fails_and_the_message_stays() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    std::thread::scope(|scope| {
        let little = scope.spawn(|| me.receive_as(id, Receive { room: 2, ..of_type(0) }));
        until("asleep", || asleep(&pool) == 1);
        me.send(id, 1, b"long").unwrap();
        assert_eq!(little.join().unwrap(), Err(Errno::TOOBIG));
    });
    assert_eq!(me.receive_now(id, 0).unwrap().1, b"long");
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_message_finds_its_receiver_behind_many_with_too_little_room() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    std::thread::scope(|scope| {
        let little: Vec<_> = (1..=20)
            .map(|n| {
                let waiter = scope.spawn(|| me.receive_as(id, Receive { room: 2, ..of_type(0) }));
                until("asleep", || asleep(&pool) == n);
                waiter
            })
            .collect();
        let large = scope.spawn(|| me.receive(id, 0));
        until("all asleep", || asleep(&pool) == 21);
        me.send(id, 1, b"long").unwrap();
        assert_eq!(large.join().unwrap().unwrap().1, b"long");
        for waiter in little {
            assert_eq!(waiter.join().unwrap(), Err(Errno::TOOBIG));
        }
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_full_queue_blocks_the_sender_until_there_is_room() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    for _ in 0..2 {
        me.send(id, 1, &[1; 8192]).unwrap();
    }
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| me.send(id, 2, &[2; 100]));
        until("asleep", || asleep(&pool) == 1);
        sound(&pool);
        assert_eq!(me.receive(id, 0).unwrap().1.len(), 8192);
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
    assert_eq!(me.receive(id, 2).unwrap().1, vec![2; 100]);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn raising_the_limit_wakes_senders() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    me.queue_change(id, 0, 0, 0o600, 10, &ROOT).unwrap();
    me.send(id, 1, &[0; 10]).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| me.send(id, 2, &[2; 10]));
        until("asleep", || asleep(&pool) == 1);
        me.queue_change(id, 0, 0, 0o600, 20, &ROOT).unwrap();
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn removal_sends_senders_and_receivers_away() {
    let pool = pool();
    let me = join(&pool, 10);
    let (full, void) = (me.queue(), me.queue());
    for _ in 0..2 {
        me.send(full, 1, &[1; 8192]).unwrap();
    }
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..12).map(|_| scope.spawn(|| me.send(full, 1, b"x"))).collect();
        let receivers: Vec<_> = (0..12).map(|_| scope.spawn(|| me.receive(void, 0))).collect();
        until("all asleep", || asleep(&pool) == 24);
        sound(&pool);
        me.queue_remove(full, &ROOT).unwrap();
        me.queue_remove(void, &ROOT).unwrap();
        for sender in senders {
            assert_eq!(sender.join().unwrap(), Err(Errno::IDRM));
        }
        for receiver in receivers {
            assert_eq!(receiver.join().unwrap(), Err(Errno::IDRM));
        }
    });
    empty(&pool, &me);
}

#[test]
fn a_stricter_mode_sends_a_sleeping_receiver_away() {
    let pool = pool();
    let me = join(&pool, 10);
    let owner = User(1000);
    let id = me.msgget(PRIVATE, 0o604, &owner).unwrap();
    std::thread::scope(|scope| {
        let receiver =
            scope.spawn(|| me.msgrcv(id, of_type(0), &User(7), &mut |_, size, _| Ok(size)));
        until("asleep", || asleep(&pool) == 1);
        me.queue_change(id, 1000, 1000, 0o600, 100, &owner).unwrap();
        assert_eq!(receiver.join().unwrap(), Err(Errno::ACCESS));
    });
    me.queue_remove(id, &owner).unwrap();
    empty(&pool, &me);
}
