//! POSIX message queues.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::{Client, Errno, QueueOpen, QueueSize, RegistrationEnd, Wait};
use vshmem_mem::Instant;
use vshmem_wire::ID_STRIDE;

const FIND: QueueOpen = QueueOpen {
    read: true,
    write: true,
    create: false,
    exclusive: false,
    mode: 0o600,
    size: Ok(QueueSize::DEFAULT),
};
const MAKE: QueueOpen = QueueOpen { create: true, ..FIND };
const NEW: QueueOpen = QueueOpen { exclusive: true, ..MAKE };

fn of(most_messages: u32, most_bytes: u32) -> QueueOpen {
    QueueOpen { size: Ok(QueueSize { most_messages, most_bytes }), ..NEW }
}

/// Shorter calls, as root.
pub(super) trait Posix {
    fn open_as(&self, name: &str, how: QueueOpen) -> Result<i32, Errno>;
    fn give(&self, id: i32, text: &str, priority: u32, wait: Wait) -> Result<(), Errno>;
    fn take(&self, id: i32, wait: Wait) -> Result<(u32, String), Errno>;
    fn left(&self, id: i32) -> u32;
}

impl Posix for Client {
    fn open_as(&self, name: &str, how: QueueOpen) -> Result<i32, Errno> {
        self.mq_open(name.as_bytes(), &how, &ROOT)
    }

    fn give(&self, id: i32, text: &str, priority: u32, wait: Wait) -> Result<(), Errno> {
        if self.mq_send_at_once(id, text.as_bytes(), priority) {
            return Ok(());
        }
        self.mq_send(id, text.as_bytes(), priority, wait).map(drop)
    }

    fn take(&self, id: i32, wait: Wait) -> Result<(u32, String), Errno> {
        let mut got = (0, String::new());
        let text_of = |text: &[u8]| String::from_utf8(text.to_vec()).expect("text");
        let at_once = self.mq_receive_at_once(
            id,
            16384,
            |_| true,
            |priority, text| got = (priority, text_of(text)),
        );
        if let Some(bytes) = at_once {
            assert_eq!(bytes, got.1.len());
            return Ok(got);
        }
        self.mq_receive(id, 16384, wait, &mut |priority, size, copy| {
            let mut text = vec![0; size];
            copy(&mut text);
            got = (priority as u32, String::from_utf8(text).expect("text"));
            Ok(size)
        })?;
        Ok(got)
    }

    fn left(&self, id: i32) -> u32 {
        self.mq_stat(id).expect("a queue").messages
    }
}

#[test]
fn a_queue_is_made_opened_by_its_name_and_goes_with_the_last_of_name_and_descriptors() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    assert_eq!(me.open_as("a", FIND), Err(Errno::NOENT));
    let id = me.open_as("a", NEW).unwrap();
    assert_eq!(other.open_as("a", NEW), Err(Errno::EXIST));
    assert_eq!(other.open_as("a", MAKE), Ok(id));
    assert_eq!(me.mq_stat(id).unwrap().opened, 2);
    sound(&pool);
    other.mq_unlink(b"a", &ROOT).unwrap();
    assert_eq!(other.mq_unlink(b"a", &ROOT), Err(Errno::NOENT));
    assert_eq!(me.open_as("a", FIND), Err(Errno::NOENT));
    me.give(id, "still there", 0, Wait::Never).unwrap();
    me.mq_close(id).unwrap();
    sound(&pool);
    assert_eq!(other.take(id, Wait::Never).unwrap().1, "still there");
    other.give(id, "lost with it", 7, Wait::Never).unwrap();
    other.mq_close(id).unwrap();
    assert_eq!(other.mq_stat(id), Err(Errno::BADF));
    assert_ne!(me.open_as("a", NEW).unwrap(), id);
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn messages_come_by_priority_and_then_in_turn() {
    let pool = pool();
    let me = join(&pool, 10);
    for most in [3, 8, 10, 40] {
        let id = me.open_as("a", of(most, 64)).unwrap();
        let mut random = 7u32;
        let mut model: Vec<(u32, u32)> = Vec::new();
        for turn in 0..if cfg!(miri) { 60 } else { 4000 } {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let sends = (random >> 16) % 5 < 3 && !(random >> 20).is_multiple_of(64);
            // Long stretches of one priority, so that the ring is used as well.
            let priority = if turn / 50 % 2 == 0 { 0 } else { (random >> 8) % 3 };
            if sends {
                let sent = me.give(id, &turn.to_string(), priority, Wait::Never);
                if model.len() < most as usize {
                    sent.unwrap();
                    model.push((priority, turn));
                } else {
                    assert_eq!(sent, Err(Errno::AGAIN));
                }
            } else {
                let first = (0..model.len()).max_by_key(|&at| (model[at].0, usize::MAX - at));
                let wanted = match first {
                    Some(at) => {
                        let (priority, turn) = model.remove(at);
                        Ok((priority, turn.to_string()))
                    }
                    None => Err(Errno::AGAIN),
                };
                assert_eq!(me.take(id, Wait::Never), wanted, "turn {turn}");
            }
            assert_eq!(me.left(id), model.len() as u32);
        }
        sound(&pool);
        me.mq_close(id).unwrap();
        me.mq_unlink(b"a", &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn messages_that_come_in_the_order_of_their_priorities_take_no_lock() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open_as("a", of(10, 64)).unwrap();
    // So that every slot of the ring has a chunk.
    for text in 0..20 {
        me.give(id, &format!("message {text}"), 5, Wait::Never).unwrap();
        me.take(id, Wait::Never).unwrap();
    }
    let at_once = |text: &str, priority: u32| me.mq_send_at_once(id, text.as_bytes(), priority);
    for turn in 0..20 {
        for (nth, priority) in [9, 9, 4, 4, 0].into_iter().enumerate() {
            let text = format!("message {nth} of {turn}");
            assert!(at_once(&text, priority), "{text}");
        }
        if turn % 2 == 1 {
            assert!(!at_once("a higher priority", 1) && !at_once("too much", 32768));
        }
        for (nth, priority) in [9, 9, 4, 4, 0].into_iter().enumerate() {
            let wanted = (priority, format!("message {nth} of {turn}"));
            assert_eq!(me.take(id, Wait::Never), Ok(wanted));
        }
        assert!(!at_once(&"longer than the queue allows ".repeat(3), 0));
    }
    // One of a higher priority than what is there goes past it, under the lock.
    assert!(at_once("the second one", 1));
    me.give(id, "the first one", 2, Wait::Never).unwrap();
    assert_eq!(me.take(id, Wait::Never), Ok((2, "the first one".to_owned())));
    assert_eq!(me.take(id, Wait::Never), Ok((1, "the second one".to_owned())));
    // One that there is no place for stays.
    me.give(id, "the last one of all", 3, Wait::Never).unwrap();
    let refused = me.mq_receive_at_once(id, 64, |_| false, |_, _| unreachable!("it is refused"));
    assert_eq!((refused, me.left(id)), (None, 1));
    assert_eq!(me.mq_receive_at_once(id, 63, |_| true, |_, _| ()), None);
    sound(&pool);
    me.mq_unlink(b"a", &ROOT).unwrap();
    me.mq_close(id).unwrap();
    empty(&pool, &me);
}

#[test]
fn senders_of_different_priorities_at_once_leave_the_messages_in_order() {
    const ROUNDS: u32 = if cfg!(miri) { 5 } else { 2000 };
    let pool = pool();
    let (me, other, third) = (join(&pool, 10), join(&pool, 11), join_in(&pool, "b", 12));
    let id = me.open_as("a", of(40, 64)).unwrap();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (nth, sender) in (0_u32..).zip([&me, &other, &third]) {
                scope.spawn(move || {
                    let count = 1 + (round + nth) % 4;
                    for turn in 0..count {
                        // Of one priority, or falling ones.
                        let priority = if round % 2 == 0 { nth } else { 3 * (count - turn) + nth };
                        sender.give(id, "any text is good", priority, Wait::Forever).unwrap();
                    }
                });
            }
        });
        let mut before = u32::MAX;
        while let Ok((priority, _)) = me.take(id, Wait::Never) {
            assert!(priority <= before, "{priority} after {before} in round {round}");
            before = priority;
        }
        assert_eq!(me.left(id), 0);
    }
    sound(&pool);
    me.mq_unlink(b"a", &ROOT).unwrap();
    me.mq_close(id).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_limit_is_the_number_of_messages_whatever_way_they_go() {
    let pool = pool();
    let me = join(&pool, 10);
    for most in 1..=12 {
        for priority in [0, 1] {
            let id = me.open_as("a", of(most, 64)).unwrap();
            for _ in 0..most {
                me.give(id, "x", priority, Wait::Never).unwrap();
            }
            assert_eq!(me.give(id, "x", 0, Wait::Never), Err(Errno::AGAIN));
            assert_eq!(me.give(id, "x", 9, Wait::Never), Err(Errno::AGAIN));
            me.take(id, Wait::Never).unwrap();
            me.give(id, "x", 0, Wait::Never).unwrap();
            assert_eq!(me.give(id, "x", 0, Wait::Never), Err(Errno::AGAIN));
            assert_eq!(me.left(id), most);
            sound(&pool);
            me.mq_close(id).unwrap();
            me.mq_unlink(b"a", &ROOT).unwrap();
        }
    }
    empty(&pool, &me);
}

#[test]
fn who_waits_is_served_and_a_deadline_ends_the_wait() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.open_as("a", of(1, 64)).unwrap();
    let theirs = other.open_as("a", FIND).unwrap();
    let soon = || Wait::Until(Instant::now().after(Duration::from_millis(5)));
    assert_eq!(me.take(id, soon()), Err(Errno::TIMEDOUT));
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| other.take(theirs, Wait::Forever));
        until("asleep", || asleep(&pool) == 1);
        me.give(id, "handed", 3, Wait::Forever).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok((3, "handed".to_owned())));
        me.give(id, "first", 0, Wait::Never).unwrap();
        assert_eq!(me.give(id, "late", 0, soon()), Err(Errno::TIMEDOUT));
        let sender = scope.spawn(|| other.give(theirs, "second", 9, Wait::Forever));
        until("asleep", || asleep(&pool) == 1);
        sound(&pool);
        assert_eq!(me.take(id, Wait::Forever).unwrap().1, "first");
        sender.join().unwrap().unwrap();
        assert_eq!(me.take(id, Wait::Forever).unwrap(), (9, "second".to_owned()));
    });
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_message_handed_to_a_receiver_that_is_dead_takes_its_place_by_priority() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.open_as("a", of(10, 64)).unwrap();
    other.mq_keep(id).unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| other.take(id, Wait::Until(forever())));
        until("asleep", || asleep(&pool) == 1);
        // Reaped while it sleeps, the message goes to the list.
        me.reap(other.client_id()).unwrap();
        for (text, priority) in [("b", 1), ("a", 2), ("c", 1)] {
            me.give(id, text, priority, Wait::Never).unwrap();
        }
        for text in ["a", "b", "c"] {
            assert_eq!(me.take(id, Wait::Never).unwrap().1, text);
        }
        drop(receiver.join());
    });
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

/// Late enough for everything to happen before it.
fn forever() -> Instant {
    Instant::now().after(Duration::from_secs(2))
}

#[test]
fn modes_say_who_may_open_and_only_the_owner_unlinks() {
    let pool = pool();
    let me = join(&pool, 10);
    let (owner, stranger) = (User(5), User(6));
    me.mq_open(b"a", &QueueOpen { mode: 0o604, ..NEW }, &owner).unwrap();
    let reads = QueueOpen { write: false, ..FIND };
    assert!(me.mq_open(b"a", &reads, &stranger).is_ok());
    assert_eq!(me.mq_open(b"a", &FIND, &stranger), Err(Errno::ACCESS));
    assert_eq!(me.mq_unlink(b"a", &stranger), Err(Errno::PERM));
    assert!(me.mq_open(b"a", &FIND, &owner).is_ok());
    me.mq_unlink(b"a", &owner).unwrap();
    empty(&pool, &me);
}

#[test]
fn sizes_are_those_that_were_asked_for_if_there_can_be_such() {
    let allowed = QueueSize { most_messages: 10, most_bytes: 8192 };
    for (messages, bytes) in [(0, 1), (1, 0), (-1, 1), (1, -1), (11, 1), (1, 8193), (1 << 32, 1)] {
        assert_eq!(QueueSize::asked(messages, bytes, allowed), Err(Errno::INVAL));
    }
    assert_eq!(QueueSize::asked(10, 8192, allowed), Ok(allowed));
    let pool = pool();
    let me = join(&pool, 10);
    assert_eq!(me.open_as("a", QueueOpen { size: Err(Errno::INVAL), ..NEW }), Err(Errno::INVAL));
    let id = me.open_as("a", of(2, QueueSize::LARGEST.most_bytes)).unwrap();
    let large = "x".repeat(QueueSize::LARGEST.most_bytes as usize);
    me.give(id, &large, 0, Wait::Never).unwrap();
    assert_eq!(me.give(id, &(large.clone() + "x"), 0, Wait::Never), Err(Errno::MSGSIZE));
    assert_eq!(me.take(id, Wait::Never).unwrap().1, large);
    assert_eq!(me.give(id, "x", 32768, Wait::Never), Err(Errno::INVAL));
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn system_v_calls_know_no_posix_queue_and_the_reverse() {
    let pool = pool();
    let me = join(&pool, 10);
    let posix = me.open_as("a", NEW).unwrap();
    let other = me.queue();
    assert_eq!(me.send_now(posix, 1, b"x"), Err(Errno::INVAL));
    assert_eq!(me.receive_now(posix, 0), Err(Errno::INVAL));
    assert_eq!(me.queue_remove(posix, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.queue_stat(posix, &ROOT).map(|_| ()), Err(Errno::INVAL));
    assert_eq!(me.give(other, "x", 0, Wait::Never), Err(Errno::BADF));
    assert_eq!(me.take(other, Wait::Never), Err(Errno::BADF));
    assert_eq!(me.mq_close(other), Err(Errno::BADF));
    me.queue_remove(other, &ROOT).unwrap();
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

/// A process remembers which queues are System V's.
#[test]
fn a_posix_queue_in_the_slot_of_a_system_v_queue_is_none_to_who_knew_that_one() {
    let pool = pool();
    let me = join(&pool, 10);
    let slots = pool.layout().msg.count as usize;
    let used: Vec<i32> = (0..slots)
        .map(|_| {
            let id = me.queue();
            me.send_now(id, 1, b"x").unwrap();
            me.queue_remove(id, &ROOT).unwrap();
            id
        })
        .collect();
    let posix = me.open_as("a", NEW).unwrap();
    assert!(used.iter().any(|id| id % ID_STRIDE as i32 == posix % ID_STRIDE as i32));
    for id in used.into_iter().chain([posix]) {
        assert_eq!(me.send_now(id, 1, b"x"), Err(Errno::INVAL));
        assert_eq!(me.receive_now(id, 0), Err(Errno::INVAL));
    }
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn one_process_is_told_of_the_first_message() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.open_as("a", NEW).unwrap();
    other.mq_keep(id).unwrap();
    let mut nothing = || {};
    let registered = AtomicU32::new(0);
    let await_registered =
        |count| until("registered", || registered.load(Ordering::SeqCst) == count);
    std::thread::scope(|scope| {
        let notice = || {
            me.mq_await_first_message(id, 77, &mut || {
                registered.fetch_add(1, Ordering::SeqCst);
            })
        };
        let first = scope.spawn(notice);
        await_registered(1);
        assert_eq!(other.mq_await_first_message(id, 0, &mut nothing), Err(Errno::BUSY));
        other.mq_unregister(id).unwrap();
        sound(&pool);
        assert_eq!(other.mq_send(id, b"x", 0, Wait::Never), Ok(None), "another's number");
        assert_eq!(first.join().unwrap(), Ok(RegistrationEnd::Message { sender: 11 }));
        // Not while there is a message.
        let second = scope.spawn(notice);
        await_registered(2);
        other.give(id, "y", 5, Wait::Never).unwrap();
        assert_eq!(asleep(&pool), 1);
        assert_eq!(me.take(id, Wait::Never).unwrap().1, "y");
        assert_eq!(me.take(id, Wait::Never).unwrap().1, "x");
        other.give(id, "z", 5, Wait::Never).unwrap();
        assert_eq!(second.join().unwrap(), Ok(RegistrationEnd::Message { sender: 11 }));
        me.take(id, Wait::Never).unwrap();
        let own = scope.spawn(notice);
        await_registered(3);
        assert_eq!(me.mq_send(id, b"own", 5, Wait::Never), Ok(Some(77)));
        assert_eq!(own.join().unwrap(), Ok(RegistrationEnd::OwnMessage));
        // Taken back, by the process itself alone.
        let third = scope.spawn(notice);
        await_registered(4);
        me.mq_unregister(id).unwrap();
        assert_eq!(third.join().unwrap(), Ok(RegistrationEnd::TakenBack));
    });
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_receiver_that_waits_comes_before_the_process_that_is_to_be_told() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.open_as("a", NEW).unwrap();
    other.mq_keep(id).unwrap();
    std::thread::scope(|scope| {
        let told = scope.spawn(|| me.mq_await_first_message(id, 0, &mut || {}));
        until("registered", || asleep(&pool) == 1);
        let receiver = scope.spawn(|| other.take(id, Wait::Forever));
        until("asleep", || asleep(&pool) == 2);
        me.give(id, "handed", 0, Wait::Never).unwrap();
        assert_eq!(receiver.join().unwrap().unwrap().1, "handed");
        assert_eq!(asleep(&pool), 1);
        me.give(id, "first", 0, Wait::Never).unwrap();
        assert_eq!(told.join().unwrap(), Ok(RegistrationEnd::Message { sender: 10 }));
    });
    me.mq_unlink(b"a", &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_end_of_a_process_gives_its_descriptors_back_and_its_registration() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.open_as("a", NEW).unwrap();
    for _ in 0..3 {
        other.mq_keep(id).unwrap();
    }
    let child = other.reserve_child().unwrap();
    assert_eq!(me.mq_stat(id).unwrap().opened, 7);
    other.cancel_child(child);
    assert_eq!(me.mq_stat(id).unwrap().opened, 4);
    std::thread::scope(|scope| {
        let told = scope.spawn(|| other.mq_await_first_message(id, 0, &mut || {}));
        until("registered", || asleep(&pool) == 1);
        me.reap(other.client_id()).unwrap();
        assert_eq!(asleep(&pool), 0);
        sound(&pool);
        drop(told.join());
    });
    assert_eq!(me.mq_stat(id).unwrap().opened, 1);
    me.mq_unlink(b"a", &ROOT).unwrap();
    me.mq_close(id).unwrap();
    sound(&pool);
    empty(&pool, &me);
}

#[test]
fn a_stream_between_two_processes_is_complete_and_in_order() {
    const COUNT: u32 = if cfg!(miri) { 30 } else { 20_000 };
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    for most in [1, 7, 8, 10] {
        let id = me.open_as("a", of(most, 64)).unwrap();
        other.mq_keep(id).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for nth in 0..COUNT {
                    // Now and then urgent ones, which say so.
                    let urgent = u32::from(nth.is_multiple_of(97));
                    me.give(id, &nth.to_string(), urgent, Wait::Forever).unwrap();
                    assert!(me.left(id) <= most);
                }
            });
            let (mut usual, mut urgent) = (0, 0);
            for _ in 0..COUNT {
                let (priority, text) = other.take(id, Wait::Forever).unwrap();
                let nth: u32 = text.parse().unwrap();
                let last = if priority == 0 { &mut usual } else { &mut urgent };
                assert!(
                    nth >= *last && nth.is_multiple_of(97) == (priority == 1),
                    "{nth} after {last}"
                );
                *last = nth + 1;
            }
        });
        assert_eq!(me.left(id), 0);
        sound(&pool);
        me.mq_unlink(b"a", &ROOT).unwrap();
        me.mq_close(id).unwrap();
        other.mq_close(id).unwrap();
    }
    empty(&pool, &me);
}
