//! What is done to message queues.

use super::*;

pub(super) fn number(n: u32) -> Vec<u8> {
    let mut text = n.to_ne_bytes().to_vec();
    text.resize(4 + n as usize * 150, n as u8);
    text
}

pub(super) fn queues(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..5 {
        me.send(queue, NUMBERED, &number(n)).expect("a message sent");
    }
    for n in 0..2 {
        assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, number(n));
    }
    let copy = Receive { copy: true, no_wait: true, ..of_type(0) };
    me.receive_as(queue, copy).expect("a copy");
    assert_eq!(me.receive_now(queue, 99), Err(Errno::NOMSG));
    let own = id(me.msgget(key(OWN), CREATE | 0o600, &ROOT));
    for n in 0..45 {
        me.send(own, 1 + n, &[n as u8; 20]).expect("a message sent");
    }
    me.receive(own, -20).expect("a message");
    me.queue_change(own, 1, 1, 0o666, 10, &ROOT).expect("IPC_SET");
    assert_eq!(me.send_now(own, 1, b"x"), Err(Errno::AGAIN));
    me.queue_remove(own, &ROOT).expect("a removal");
}

/// Messages of the survivor, for the child to take: it sends its own in what they came in.
pub(super) fn prepare_rings(session: &Session) {
    prepare(session);
    let me = session.client();
    let other = id(me.msgget(OWN + 1, CREATE | 0o600, &ROOT));
    for n in 0..8 {
        me.send(other, 1, &[n; 40]).expect("a message sent");
    }
}

/// The queue has chunks in reserve: short messages lie in the slots of its ring.
pub(super) fn prepare_slots(session: &Session) {
    prepare(session);
    let me = session.client();
    for _ in 0..9 {
        me.send(queue(me), 1, b"x").expect("a message sent");
        me.receive(queue(me), 1).expect("a message");
    }
}

/// Messages in slots, beside others in chunks, and what makes them leave the ring.
pub(super) fn slots(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..4_u32 {
        me.send(queue, NUMBERED, &n.to_ne_bytes()).expect("a message sent");
        me.send(queue, 6, &[6; 40]).expect("a message sent");
    }
    assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, 0_u32.to_ne_bytes());
    // The ring is closed, with messages of both kinds.
    me.queue_change(queue, 0, 0, 0o600, 16384, &ROOT).expect("IPC_SET");
    assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, 1_u32.to_ne_bytes());
    // A reserve that this process provides, and that goes with its queue.
    let own = id(me.msgget(key(OWN), CREATE | 0o600, &ROOT));
    for _ in 0..9 {
        me.send(own, 1, b"y").expect("a message sent");
        me.receive(own, 1).expect("a message");
    }
    me.send(own, 1, b"y").expect("a message sent");
    me.queue_remove(own, &ROOT).expect("a removal");
}

/// Receivers that go to sleep beside a ring that is full of messages in slots.
pub(super) fn full_slots(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..8_u32 {
        me.send(queue, NUMBERED, &n.to_ne_bytes()).expect("a message sent");
    }
    std::thread::scope(|scope| {
        let waiters = [3, 4].map(|kind| {
            let waiter = scope.spawn(move || me.receive(queue, kind));
            asleep(me, kind as u32 - 2);
            (kind, waiter)
        });
        assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, 0_u32.to_ne_bytes());
        for (kind, waiter) in waiters {
            me.send(queue, kind, b"awaited").expect("a message sent");
            assert_eq!(waiter.join().expect("a thread").expect("a message").1, b"awaited");
        }
    });
    assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, 1_u32.to_ne_bytes());
}

/// The queue uses its long ring.
pub(super) fn prepare_long_ring(session: &Session) {
    prepare(session);
    lengthen_ring(session.client(), queue(session.client()));
}

/// Messages in a long ring, which goes to the list in several changes.
pub(super) fn long_rings(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..20_u32 {
        me.send(queue, NUMBERED, &n.to_ne_bytes()).expect("a message sent");
        if n % 8 == 0 {
            me.send(queue, 6, b"behind").expect("a message sent");
        }
    }
    assert_eq!(me.receive(queue, 6).expect("a message").1, b"behind");
    assert_eq!(me.receive(queue, 0).expect("a message").1, 0_u32.to_ne_bytes());
    me.queue_change(queue, 0, 0, 0o600, 16384, &ROOT).expect("IPC_SET");
    for n in 1..19_u32 {
        assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, n.to_ne_bytes());
    }
    // The ninth finds no slot, and has the long ring made.
    let own = id(me.msgget(key(OWN), CREATE | 0o600, &ROOT));
    for n in 0..10 {
        me.send(own, 1, &[n; 20]).expect("a message sent");
    }
    me.queue_remove(own, &ROOT).expect("a removal");
}

/// Takes messages from behind others, and leaves a gap where each was.
pub(super) fn types(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..3 {
        me.send(queue, NUMBERED, &number(n)).expect("a message sent");
        me.send(queue, 6, b"behind").expect("a message sent");
    }
    for _ in 0..3 {
        assert_eq!(me.receive(queue, 6).expect("a message").1, b"behind");
    }
    assert_eq!(me.receive_now(queue, 6), Err(Errno::NOMSG));
    // The ring has gaps when it is closed.
    me.queue_change(queue, 0, 0, 0o600, 16384, &ROOT).expect("IPC_SET");
    assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, number(0));
}

/// Messages that go through the ring, and everything that makes them leave it.
pub(super) fn rings(session: Session) {
    let me = session.client();
    let queue = queue(me);
    for n in 0..3 {
        me.send(queue, NUMBERED, &number(n)).expect("a message sent");
    }
    assert_eq!(me.receive(queue, NUMBERED).expect("a message").1, number(0));
    let other = id(me.msgget(OWN + 1, 0, &ROOT));
    for n in 0..8 {
        assert_eq!(me.receive(other, 0).expect("a message").1, [n; 40]);
    }
    for n in 0..20 {
        me.send(other, 1, &[n; 40]).expect("a message sent");
        assert_eq!(me.receive(other, 0).expect("a message").1, [n; 40]);
    }
    let own = id(me.msgget(OWN, CREATE | 0o600, &ROOT));
    for n in 0..9 {
        me.send(own, 1 + n, &[n as u8; 30]).expect("a message sent");
    }
    for kind in [3, -2, 0, 0, 0, 0, 0, 0, 0] {
        me.receive(own, kind).expect("a message");
    }
    me.send(own, 3, &[1; 400]).expect("a message sent");
    me.send(own, 2, &[2; 400]).expect("a message sent");
    assert_eq!(me.receive(own, -3).expect("a message").0, 2);
    assert_eq!(me.receive_now(own, 3).expect("a message").0, 3);
    me.send(own, 3, &[1; 600]).expect("a message sent");
    me.receive(own, 0).expect("a message");
    me.send(own, 3, &[1; 6]).expect("a message sent");
    me.receive(own, 0).expect("a message");
    // Larger than what the slots note, for the stack, and for the queue.
    for size in [900, 20, 3000, 40, 7000] {
        me.send(own, 3, &vec![7; size]).expect("a message sent");
        assert_eq!(me.receive(own, 0).expect("a message").1, vec![7; size]);
    }
    for _ in 0..2 {
        me.send(own, 3, &[8; 8000]).expect("a message sent");
    }
    assert_eq!(me.send_now(own, 1, &[0; 400]), Err(Errno::AGAIN));
    me.receive(own, 0).expect("a message");
    me.queue_remove(own, &ROOT).expect("a removal");
}

/// Slabs change from one size to another.
pub(super) fn full_heap(session: Session) {
    let me = session.client();
    let own = id(me.msgget(key(OWN), CREATE | 0o600, &ROOT));
    me.queue_change(own, 0, 0, 0o600, 1 << 24, &ROOT).expect("IPC_SET");
    for size in [7000, 200, 3000, 900] {
        let mut sent = 0;
        while sent < 9 && me.send_now(own, 1, &vec![1; size]).is_ok() {
            sent += 1;
        }
        while me.receive_now(own, 0).is_ok() {}
    }
    me.queue_remove(own, &ROOT).expect("a removal");
}

/// Type of the message that is given to a waiter.
pub(super) const GIFT: i64 = 8;

/// Takes a token and a message, each in its sleep, and says when it has seen them.
pub(super) fn takes(session: Session) {
    let me = session.client();
    me.op(tokens(me), &[down(2)]).expect("a token");
    me.put(gate(me), 0, 1);
    me.receive(queue(me), GIFT).expect("a message");
    me.put(gate(me), 1, 1);
}

/// Gives a waiter one token and one message, whether it lives or has just died.
pub(super) fn give(me: &Client, pid: u32) {
    if sleeping(me, pid) == 0 {
        return;
    }
    if me.waiters(tokens(me), 2, false) > 0 {
        me.op(tokens(me), &[down(0), up(2)]).expect("a token moved");
    } else if me.pool().waiters().is_ok_and(|list| list.iter().any(|w| w.kind == Kind::Queue)) {
        me.send_now(queue(me), GIFT, b"gift").expect("a message sent");
        me.put(wide(me), 59, 1);
    }
}

/// What the child has not seen when it died is still there.
pub(super) fn verify_taken(session: &Session, order: &Order) -> Result<(), String> {
    let me = session.client();
    let seen = |nth: i32| {
        // Between the step that makes it the child's own and the word that says so.
        let just = order.name.starts_with("claim sleep.rs") && order.name.ends_with("/after")
            || order.name.starts_with("sem-setval");
        // One that is evicted when it has seen it cannot say so.
        let silenced = order.fate == Fate::Evicted;
        me.value(gate(me), nth) == 1 || silenced || (just && order.nth == nth as u32 + 1)
    };
    let sent = me.value(wide(me), 59) == 1;
    let there = me.receive_now(queue(me), GIFT).is_ok();
    if sent && !there && !seen(1) {
        return Err("a message is lost that no client has seen".to_owned());
    }
    if there && me.value(gate(me), 1) == 1 {
        return Err("a message is there that the child has seen".to_owned());
    }
    let sum: u32 = (0..3).map(|n| me.value(tokens(me), n)).sum();
    let taken = me.value(gate(me), 0) == 1;
    if sum != ALL_TOKENS && !seen(0) {
        return Err("a token is lost that no client has seen".to_owned());
    }
    let expected = if taken || sum < ALL_TOKENS { ALL_TOKENS - 1 } else { ALL_TOKENS };
    verify_all(session, expected)
}

pub(super) fn prepare_waiters(session: &Session) {
    prepare(session);
}

/// No thread sleeps on its own here: the child wakes threads of the survivor.
pub(super) fn send_to_sleep(_: &Client, _: u32) {}
