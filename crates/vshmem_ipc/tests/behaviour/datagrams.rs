//! Domains whose agents notify each other by datagram: who is asked to notify whom, and who may
//! rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::{Client, DomainSet, NotifySet};

const LONG: Duration = Duration::from_secs(60);

/// The agent of a guest, as long as the calling thread lives: waiters rely on that thread.
fn agent(guest: &Guest, pid: u32, digest: u32) -> Client {
    let agent = guest.join(pid);
    agent.guard_waiters();
    agent.publish_listening(Some(digest)).unwrap();
    agent
}

fn hear(agent: &Client, others: &[u32]) {
    let mut heard = DomainSet::default();
    for &other in others {
        heard.add(other);
    }
    agent.publish_heard(heard).unwrap();
}

/// Runs `body` while the agent of `guest` lives, in a thread of its own, with an end that it
/// awaits.
fn with_agent<T>(guest: &Guest, pid: u32, digest: u32, body: impl FnOnce(&Client) -> T) -> T {
    let over = AtomicBool::new(false);
    let (here, there) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let own = agent(guest, pid, digest);
            here.send(own).unwrap();
            while !over.load(Ordering::SeqCst) {
                std::thread::park();
            }
        });
        let own = there.recv().unwrap();
        let result = body(&own);
        over.store(true, Ordering::SeqCst);
        keeper.thread().unpark();
        result
    })
}

#[test]
fn a_waiter_whose_agent_hears_the_waker_is_notified_and_rests() {
    let pool = pool();
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    with_agent(&a, 1, 11, |agent_a| {
        with_agent(&b, 2, 22, |agent_b| {
            let (me, other) = (a.join(10), b.join(20));
            hear(agent_a, &[agent_b.domain()]);
            assert_eq!((me.is_woken_by_all(), other.is_woken_by_all()), (Ok(true), Ok(false)));
            hear(agent_b, &[agent_a.domain()]);
            assert_eq!(other.is_woken_by_all(), Ok(true));
            let set = me.set(1);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    for _ in 0..20 {
                        other.op(set, &[down(0)]).unwrap();
                    }
                });
                for _ in 0..20 {
                    until("asleep", || me.waiters(set, 0, false) == 1);
                    me.op(set, &[up(0)]).unwrap();
                    let asked = agent_a.await_asked(LONG).unwrap();
                    assert!(asked.has(agent_b.domain()) && !asked.has(agent_a.domain()));
                    let listeners = agent_a.listeners().unwrap();
                    let [listener] = listeners[..] else { panic!("{listeners:?}") };
                    assert_eq!((listener.digest, listener.relies_on_us), (22, true));
                    agent_b.deliver_wakeups();
                    until("noticed", || agent_a.not_noticed(asked) == Ok(NotifySet::default()));
                }
                waiter.join().unwrap();
            });
        });
    });
}

#[test]
fn an_agent_asleep_is_woken_by_who_asks() {
    let pool = pool();
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    with_agent(&a, 1, 11, |agent_a| {
        let agent_b = b.join(2);
        agent_b.publish_listening(Some(22)).unwrap();
        hear(&agent_b, &[agent_a.domain()]);
        let (me, other) = (a.join(10), b.join(20));
        let set = me.set(1);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| agent_a.await_asked(LONG).unwrap());
            let waiter = scope.spawn(|| other.op(set, &[down(0)]));
            until("asleep", || me.waiters(set, 0, false) == 1);
            me.op(set, &[up(0)]).unwrap();
            let asked = asked.join().unwrap();
            assert!(asked.has(agent_b.domain()));
            // It looks by itself once a second; until then it has not noticed.
            let not_noticed = agent_a.not_noticed(asked).unwrap();
            assert!(not_noticed.has(agent_b.domain()) || waiter.is_finished());
            assert!(!not_noticed.has(agent_a.domain()));
            waiter.join().unwrap().unwrap();
            assert_eq!(agent_a.not_noticed(NotifySet::ALL), Ok(NotifySet::default()));
        });
    });
}

#[test]
fn no_agent_is_asked_to_notify_a_domain_that_does_not_rely_on_it() {
    let pool = pool();
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    with_agent(&a, 1, 11, |agent_a| {
        let (me, other) = (a.join(10), b.join(20));
        let set = me.set(1);
        let agent_b = b.join(2);
        for listens in [None, Some(22)] {
            // It listens, and has heard no other: its waiters look for themselves.
            agent_b.publish_listening(listens).unwrap();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| other.op(set, &[down(0)]));
                until("asleep", || me.waiters(set, 0, false) == 1);
                me.op(set, &[up(0)]).unwrap();
                waiter.join().unwrap().unwrap();
            });
            assert_eq!(
                agent_a.await_asked(Duration::ZERO),
                Ok(NotifySet::default()),
                "{listens:?}"
            );
        }
    });
}

#[test]
fn with_a_domain_without_configuration_all_look_while_it_has_clients() {
    let pool = pool();
    let (a, b, c) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"), Guest::new(&pool, "c"));
    with_agent(&a, 1, 11, |agent_a| {
        with_agent(&b, 2, 22, |agent_b| {
            hear(agent_a, &[agent_b.domain()]);
            hear(agent_b, &[agent_a.domain()]);
            let me = a.join(10);
            assert_eq!(me.is_woken_by_all(), Ok(true));
            let mute = c.join(30);
            assert_eq!((me.is_woken_by_all(), mute.is_woken_by_all()), (Ok(false), Ok(false)));
            mute.leave().unwrap();
            assert_eq!(me.is_woken_by_all(), Ok(true));
        });
    });
}

#[test]
fn no_waiter_relies_on_what_a_dead_agent_has_heard() {
    let pool = pool();
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let other = b.join(20);
    let me = a.join(10);
    let agent_a = with_agent(&a, 1, 11, |agent_a| {
        hear(agent_a, &[other.domain()]);
        assert_eq!(me.is_woken_by_all(), Ok(true));
        agent_a.domain()
    });
    // Its thread has ended as if killed: what it said in the pool stands.
    let rows = pool.domains().unwrap();
    let row = rows.iter().find(|row| row.index == agent_a).unwrap();
    assert!(row.listens && row.heard.has(other.domain()));
    // The kernel lets go of what a thread held only after its last instruction.
    until("its end is seen", || me.is_woken_by_all() == Ok(false));
}

#[test]
fn the_next_domain_in_a_slot_listens_to_no_peer() {
    let pool = pool();
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let me = a.join(10);
    let gone = b.join(2);
    gone.publish_listening(Some(22)).unwrap();
    hear(&gone, &[me.domain()]);
    me.reap_domain(gone.domain()).unwrap();
    let next = Guest::new(&pool, "n").join(5);
    assert_eq!(next.domain(), gone.domain());
    let rows = pool.domains().unwrap();
    let row = rows.iter().find(|row| row.index == next.domain()).unwrap();
    assert_eq!((row.listens, row.heard), (false, DomainSet::default()));
}

#[test]
fn domains_that_keep_their_words_in_the_pool_ask_their_agent_there() {
    let pool = pool();
    let b = Guest::new(&pool, "b");
    let here = join(&pool, 1);
    here.publish_listening(Some(11)).unwrap();
    let other = b.join(20);
    other.publish_listening(Some(22)).unwrap();
    hear(&other, &[here.domain()]);
    let me = join(&pool, 10);
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || me.waiters(set, 0, false) == 1);
        me.op(set, &[up(0)]).unwrap();
        assert!(here.await_asked(LONG).unwrap().has(other.domain()));
        waiter.join().unwrap().unwrap();
    });
}
