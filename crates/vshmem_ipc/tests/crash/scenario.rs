//! What the child does, what the others do meanwhile, and what has to hold afterwards.

mod deaths;
mod departures;
mod ends;
mod file_locks;
mod locks;
mod messages;
mod posix_queues;
mod posix_shm;
mod semaphores;

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use vshmem_ipc::{Client, DomainIdentity, Errno, Kind, Process, Receive, WakeScope};
use vshmem_session::Session;

use crate::fixture::*;
use crate::run::{Fate, Order, join_as_child, sleeping};

use deaths::*;
use departures::*;
use ends::verify_all;
pub use ends::verify_empty;
use file_locks::*;
use locks::*;
use messages::*;
use posix_queues::*;
use posix_shm::*;
use semaphores::*;

pub struct Scenario {
    pub name: &'static str,
    /// Slabs of the heap.
    pub slabs: u64,
    /// Whether a dead process lies there when the child begins.
    pub victim: bool,
    /// Whether the pool is also repaired after the reaping.
    pub repairs: bool,
    pub prepare: fn(&Session),
    pub act: fn(Session),
    /// Called again and again while the child runs.
    pub attend: fn(&Client, u32),
    /// Calls of a survivor on the same objects; they leave things as they were.
    pub survive: fn(&Session),
    pub verify: fn(&Session, &Order) -> Result<(), String>,
}

const PLAIN: Scenario = Scenario {
    name: "",
    slabs: 12,
    victim: false,
    repairs: false,
    prepare,
    act: |_| (),
    attend: |_, _| (),
    survive,
    verify,
};

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "segments", act: segments, ..PLAIN },
    Scenario { name: "holds", act: holds, ..PLAIN },
    Scenario { name: "cleans", act: cleans, ..PLAIN },
    Scenario { name: "semaphores", act: semaphores, ..PLAIN },
    Scenario { name: "large-sets", slabs: 40, act: large_sets, ..PLAIN },
    Scenario { name: "queues", act: queues, ..PLAIN },
    Scenario {
        name: "names",
        prepare: prepare_names,
        act: names,
        survive: survive_names,
        verify: verify_names,
        ..PLAIN
    },
    Scenario { name: "rings", prepare: prepare_rings, act: rings, ..PLAIN },
    Scenario { name: "slots", prepare: prepare_slots, act: slots, ..PLAIN },
    Scenario {
        name: "slots-full",
        prepare: prepare_slots,
        act: full_slots,
        attend: send_to_sleep,
        ..PLAIN
    },
    Scenario { name: "long-rings", prepare: prepare_long_ring, act: long_rings, ..PLAIN },
    Scenario { name: "types", act: types, ..PLAIN },
    Scenario { name: "full-heap", slabs: 4, act: full_heap, survive: survive_little, ..PLAIN },
    Scenario { name: "sleeps", act: sleeps, attend: wake, ..PLAIN },
    Scenario { name: "takes", act: takes, attend: give, verify: verify_taken, ..PLAIN },
    Scenario {
        name: "wakes",
        prepare: prepare_waiters,
        act: wakes,
        attend: send_to_sleep,
        ..PLAIN
    },
    Scenario {
        name: "locks",
        prepare: prepare_locks,
        act: locks,
        survive: survive_locks,
        verify: verify_locks,
        ..PLAIN
    },
    Scenario {
        name: "posix-queues",
        prepare: prepare_posix_queues,
        act: posix_queues,
        survive: survive_posix_queues,
        verify: verify_posix_queues,
        ..PLAIN
    },
    Scenario {
        name: "file-locks",
        prepare: prepare_file_locks,
        act: file_locks,
        attend: attend_file_locks,
        survive: survive_file_locks,
        verify: verify_file_locks,
        ..PLAIN
    },
    Scenario { name: "forks", act: forks, ..PLAIN },
    Scenario { name: "execs", act: execs, ..PLAIN },
    Scenario { name: "leaves", act: leaves, ..PLAIN },
    Scenario { name: "reaps", victim: true, act: reaps, ..PLAIN },
    Scenario { name: "reaps-domain", prepare: prepare_domain, act: reaps_domain, ..PLAIN },
    Scenario {
        name: "departs",
        prepare: prepare_departure,
        act: departs,
        survive: survive_departure,
        ..PLAIN
    },
    Scenario { name: "repairs", victim: true, repairs: true, act: repairs, ..PLAIN },
];

/// Which of several children on one pool this is about; each has keys of its own.
static SHARE: AtomicI32 = AtomicI32::new(0);

/// From now on it is about that one.
pub fn turn_to(share: i32) {
    SHARE.store(share, Ordering::Relaxed);
}

fn key(of_the_first: i32) -> i32 {
    of_the_first + 1000 * SHARE.load(Ordering::Relaxed)
}

/// Keys.
const TOKENS: i32 = 101;

const WIDE: i32 = 102;

const QUEUE: i32 = 103;

const SEGMENT: i32 = 104;

const GATE: i32 = 105;

/// Keys that only the child makes.
const OWN: i32 = 200;

pub const ALL_TOKENS: u32 = 9;

/// Type of the messages that the child numbers.
const NUMBERED: i64 = 5;

fn id(found: Result<i32, Errno>) -> i32 {
    found.expect("an object")
}

pub fn tokens(me: &Client) -> i32 {
    id(me.semget(key(TOKENS), 0, 0, &ROOT))
}

fn wide(me: &Client) -> i32 {
    id(me.semget(key(WIDE), 0, 0, &ROOT))
}

fn gate(me: &Client) -> i32 {
    id(me.semget(key(GATE), 0, 0, &ROOT))
}

fn queue(me: &Client) -> i32 {
    id(me.msgget(key(QUEUE), 0, &ROOT))
}

fn segment(session: &Session) -> i32 {
    id(session.client().shmget(key(SEGMENT), 0, 0, &ROOT, session))
}

fn make(session: &Session, key: i32, size: u64) -> i32 {
    id(session.client().shmget(key, size, CREATE | 0o600, &ROOT, session))
}

pub fn prepare(session: &Session) {
    let me = session.client();
    let set = id(me.semget(key(TOKENS), 3, CREATE | 0o600, &ROOT));
    me.put(set, 0, ALL_TOKENS as i32);
    id(me.semget(key(WIDE), 60, CREATE | 0o600, &ROOT));
    id(me.semget(key(GATE), 2, CREATE | 0o600, &ROOT));
    id(me.msgget(key(QUEUE), CREATE | 0o600, &ROOT));
    make(session, key(SEGMENT), 10_000);
}

/// Other calls on the same objects, which must always come to their end.
fn survive(session: &Session) {
    let me = session.client();
    for _ in 0..2 {
        let set = tokens(me);
        me.op(set, &[up(1), down(1)]).expect("a semaphore array");
        me.op(set, &[undone(up(1)), undone(down(1))]).expect("an array with undo");
        for one in [undone(up(0)), undone(down(0)), undone(up(1)), undone(down(1))] {
            me.op(set, &[one]).expect("an operation without the lock");
        }
        me.op(wide(me), &(0..60).flat_map(|n| [up(n), down(n)]).collect::<Vec<_>>())
            .expect("a long array");
        let queue = queue(me);
        me.send_now(queue, 77, b"survivor").expect("a message sent");
        assert_eq!(me.receive_now(queue, 77).expect("a message").1, b"survivor");
        let attached = me.shmat(segment(session), true, false, &ROOT).expect("an attach");
        assert_eq!(attached.bytes, 12_288);
        me.shmdt(segment(session)).expect("a detach");
        let other = make(session, 0, 4096);
        me.segment_remove(other, &ROOT).expect("a removal");
        let other = me.set(40);
        me.op(other, &[undone(up(39))]).expect("an operation");
        me.set_remove(other, &ROOT).expect("a removal");
        let other = me.queue();
        me.send_now(other, 1, &[1; 600]).expect("a message sent");
        me.queue_remove(other, &ROOT).expect("a removal");
    }
}

/// As [`survive`], where the heap may be full.
fn survive_little(session: &Session) {
    let me = session.client();
    let set = tokens(me);
    me.op(set, &[up(1), down(1)]).expect("a semaphore array");
    me.shmat(segment(session), true, false, &ROOT).expect("an attach");
    me.shmdt(segment(session)).expect("a detach");
}

/// Nothing is lost: tokens, messages, attaches.
fn verify(session: &Session, _: &Order) -> Result<(), String> {
    verify_all(session, ALL_TOKENS)
}

fn segments(session: Session) {
    let me = session.client();
    let shared = segment(&session);
    me.shmat(shared, true, false, &ROOT).expect("an attach");
    me.shmat(shared, false, false, &ROOT).expect("an attach");
    me.attach_again(shared).expect("an attach");
    me.shmdt(shared).expect("a detach");
    let own = make(&session, key(OWN), 5000);
    let second = make(&session, key(OWN + 1), 30_000);
    let third = make(&session, key(OWN + 2), 9000);
    me.shmat(second, true, false, &ROOT).expect("an attach");
    me.segment_change(second, 1, 1, 0o666, &ROOT).expect("IPC_SET");
    me.segment_lock(second, true, None, &ROOT).expect("SHM_LOCK");
    me.segment_remove(own, &ROOT).expect("a removal");
    me.segment_remove(third, &ROOT).expect("a removal");
    me.segment_remove(second, &ROOT).expect("a removal");
    me.shmdt(second).expect("a detach");
    assert_eq!(me.shmget(key(OWN), 0, 0, &ROOT, &session), Err(Errno::NOENT));
    assert_eq!(me.shmget(key(OWN), 4096, CREATE | 0o600, &ROOT, &Broke), Err(Errno::NOSPC));
    me.detach_all().expect("detaches");
}

/// Memory without a key: there is no moment at which it is left behind.
fn holds(session: Session) {
    let me = session.client();
    let held = me.hold_memory(9000, 0, &ROOT, &session).expect("memory");
    me.shmat(held.id, true, false, &ROOT).expect("an attach");
    let more = me.hold_memory(4096, 0, &ROOT, &session).expect("memory");
    assert_eq!(me.hold_memory(4096, 0, &ROOT, &Broke), Err(Errno::NOSPC));
    me.shmdt(held.id).expect("a detach");
    me.shmdt(held.id).expect("a detach");
    me.shmdt(more.id).expect("a detach");
}

/// Pages are cleaned between others that are in use, and made a segment again.
fn cleans(session: Session) {
    let me = session.client();
    let made: Vec<i32> = (0..4).map(|n| make(&session, key(OWN + n), 300 << 12)).collect();
    me.segment_remove(made[0], &ROOT).expect("a removal");
    me.segment_remove(made[2], &ROOT).expect("a removal");
    while me.clean_pages(u64::MAX, &session).expect("cleaning") > 0 {}
    assert_eq!(me.clean_pages(u64::MAX, &Broke), Ok(0));
    let again = make(&session, key(OWN + 4), 280 << 12);
    me.segment_remove(made[1], &ROOT).expect("a removal");
    assert_eq!(me.clean_pages(u64::MAX, &Broke), Err(Errno::NOSPC));
    me.segment_remove(again, &ROOT).expect("a removal");
    me.segment_remove(made[3], &ROOT).expect("a removal");
}

/// Sleeps in every way, until the survivor does what is waited for.
fn sleeps(session: Session) {
    let me = session.client();
    let (gate, queue) = (gate(me), queue(me));
    me.op(gate, &[down(0)]).expect("a semaphore");
    me.op(gate, &[undone(down(0)), zero(1)]).expect("a semaphore");
    assert_eq!(me.receive(queue, 8).expect("a message").0, 8);
    let own = id(me.msgget(key(OWN), CREATE | 0o600, &ROOT));
    me.queue_change(own, 0, 0, 0o600, 10, &ROOT).expect("IPC_SET");
    me.send(own, 1, &[1; 10]).expect("a message sent");
    me.send(own, 2, &[2; 10]).expect("a message sent");
    me.queue_remove(own, &ROOT).expect("a removal");
    let many: Vec<_> = (0..12).map(down).collect();
    me.op(wide(me), &many).expect("a long array");
}

/// Gives a waiter what it waits for.
fn wake(me: &Client, pid: u32) {
    if sleeping(me, pid) == 0 {
        return;
    }
    if me.waiters(gate(me), 0, false) > 0 {
        me.op(gate(me), &[up(0)]).expect("a rise");
    }
    if me.waiters(wide(me), 0, false) > 0 {
        me.op(wide(me), &(0..12).map(up).collect::<Vec<_>>()).expect("a rise");
    }
    let Ok(waiters) = me.pool().waiters() else { return };
    if waiters.iter().any(|waiter| waiter.kind == Kind::Queue) {
        let _ = me.send_now(queue(me), 8, b"wake up");
        if let Ok(own) = me.msgget(key(OWN), 0, &ROOT) {
            let _ = me.receive_now(own, 1);
        }
    }
}

/// Waits until so many threads of this process sleep. Once it is evicted, none does.
fn asleep(me: &Client, threads: u32) {
    until("asleep", || {
        assert_eq!(me.is_active_member(), Ok(true), "evicted");
        sleeping(me, std::process::id()) == threads
    });
}

fn wakes(session: Session) {
    let me = session.client();
    let (gate, queue) = (gate(me), queue(me));
    // Waiters of this very process, in threads of their own.
    std::thread::scope(|scope| {
        let a = scope.spawn(|| me.op(gate, &[down(0)]));
        let b = scope.spawn(|| me.op(gate, &[undone(down(0)), undone(up(1))]));
        let c = scope.spawn(|| me.receive(queue, 3));
        let d = scope.spawn(|| me.receive_as(queue, Receive { room: 1, ..of_type(4) }));
        asleep(me, 4);
        me.op(gate, &[by(0, 2)]).expect("a rise");
        me.send(queue, 3, b"three").expect("a message sent");
        me.send(queue, 4, b"four").expect("a message sent");
        a.join().expect("a thread").expect("a semaphore");
        b.join().expect("a thread").expect("a semaphore");
        c.join().expect("a thread").expect("a message");
        assert_eq!(d.join().expect("a thread"), Err(Errno::TOOBIG));
        let own = me.set(2);
        let waiters: Vec<_> = (0..4).map(|_| scope.spawn(move || me.op(own, &[down(1)]))).collect();
        asleep(me, 4);
        me.put(own, 1, 1);
        asleep(me, 3);
        me.set_remove(own, &ROOT).expect("a removal");
        let done = waiters.into_iter().filter_map(|s| s.join().expect("a thread").ok()).count();
        assert_eq!(done, 1);
    });
}

fn forks(session: Session) {
    let me = session.client();
    me.shmat(segment(&session), true, false, &ROOT).expect("an attach");
    let other = make(&session, key(OWN), 4096);
    me.shmat(other, true, false, &ROOT).expect("an attach");
    let kept = me.reserve_child().expect("a slot");
    me.cancel_child(kept);
    let kept = me.reserve_child().expect("a slot");
    // As the child would: this process goes on under the other slot.
    let process = Process { pid: std::process::id(), start: 1, uid: 0 };
    me.become_child(Some(kept), process, None).expect("a place");
    me.shmdt(other).expect("a detach");
    me.segment_remove(other, &ROOT).expect("a removal");
}

fn execs(session: Session) {
    let me = session.client();
    me.shmat(segment(&session), true, false, &ROOT).expect("an attach");
    me.op(tokens(me), &[undone(down(0))]).expect("an operation");
    me.send(queue(me), 1, b"before").expect("a message sent");
    let path = session.link().path().to_owned();
    let after = join_as_child(&path);
    assert_eq!(after.client().client_slot(), me.client_slot());
    after.client().op(tokens(me), &[undone(down(0))]).expect("an operation");
}

fn leaves(session: Session) {
    let me = session.client();
    me.shmat(segment(&session), true, false, &ROOT).expect("an attach");
    me.op(tokens(me), &[undone(down(0)), undone(up(2))]).expect("an operation");
    me.send(queue(me), 1, b"before").expect("a message sent");
    me.release_at_exit().expect("a farewell");
    session.leave().expect("a leave");
}

/// Threads of the victim that sleep.
pub const VICTIM_WAITERS: u32 = 3;

/// Holds a bit of everything, and sleeps.
pub fn victim(session: &Session) {
    let me = session.client();
    me.shmat(segment(session), true, false, &ROOT).expect("an attach");
    let own = make(session, key(OWN + 50), 9000);
    me.shmat(own, true, false, &ROOT).expect("an attach");
    me.segment_remove(own, &ROOT).expect("a removal");
    me.op(tokens(me), &[undone(by(0, -3)), undone(by(1, 3))]).expect("an operation");
    let call: Vec<_> = (0..30).map(|n| undone(up(n))).collect();
    me.op(wide(me), &call).expect("a long array");
    me.send(queue(me), 1, &[3; 300]).expect("a message sent");
    me.send(queue(me), 1, &[4; 10]).expect("a message sent");
    let (gate, queue) = (gate(me), queue(me));
    std::thread::scope(|scope| {
        scope.spawn(|| me.op(gate, &[down(0)]));
        scope.spawn(|| me.op(gate, &[undone(down(1))]));
        let _ = me.receive(queue, 50);
    });
}

/// Moves a token, under the lock: the array is too long for doing without.
pub fn porter(session: &Session) {
    let me = session.client();
    let call = [up(0), down(0)].repeat(4);
    me.op(tokens(me), &[&call[..], &[down(0), up(1)]].concat()).expect("a token moved");
}

/// Sleeps until it can move a token from the second semaphore to the third.
pub fn mover(session: &Session) {
    let me = session.client();
    let _ = me.op(tokens(me), &[down(1), up(2)]);
}
