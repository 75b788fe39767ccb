//! Reaping that is stopped anywhere, finished by others, and goes on when all that the dead had is
//! another client's.

use rustix::process::{Signal, kill_process};
use vshmem_ipc::{Client, DomainIdentity, Process, WakeScope};
use vshmem_session::Session;

use crate::fixture::{CREATE, Calls, PRIVATE, ROOT, asleep, down, undone, until, up};
use crate::run::{self, Fate, Order, Rest, Run};
use crate::scenario::{self, SCENARIOS};

/// Clients that come afterwards: all free slots there are, so that one of them has the dead one's.
const NEXT: u32 = 13;

fn join(session: &Session, nth: u32) -> Client {
    let identity = DomainIdentity {
        boot_id: [5; 16],
        pid_namespace: 4,
        born: 0,
        name: "next".to_owned(),
        named: false,
    };
    let process = Process { pid: 1000 + nth, start: 3, uid: 0 };
    let pool = session.client().pool().clone();
    Client::join(pool, &identity, process, None, WakeScope::Kernel).expect("a place")
}

/// Each holds a token with undo, an attach, and a thread that sleeps.
fn live(session: &Session, resume: impl FnOnce()) -> Result<(), String> {
    let me = session.client();
    let set = scenario::tokens(me);
    let bell = me.set(1);
    let segment = me.shmget(PRIVATE, 4096, CREATE | 0o600, &ROOT, session).expect("a segment");
    let before = me.value(set, 2);
    let all_clients: Vec<Client> = (0..NEXT).map(|nth| join(session, nth)).collect();
    for this_client in &all_clients {
        this_client.op(set, &[undone(up(2))]).expect("a token");
        this_client.shmat(segment, true, false, &ROOT).expect("an attach");
    }
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = all_clients
            .iter()
            .map(|this_client| scope.spawn(move || this_client.op(bell, &[undone(down(0))])))
            .collect();
        until("asleep", || asleep(me.pool()) == NEXT as usize);
        resume();
        for (what, is, should) in [
            ("tokens", me.value(set, 2), before + NEXT),
            ("waiters", asleep(me.pool()) as u32, NEXT),
            ("attaches", me.segment_stat(segment, &ROOT).expect("a segment").attached, NEXT),
        ] {
            if is != should {
                wrong.push(format!("{is} {what}, not {should}"));
            }
        }
        for _ in 0..NEXT {
            me.op(bell, &[up(0)]).expect("a token");
        }
        for waiter in waiters {
            let woken = waiter.join().expect("a thread");
            if woken != Ok(()) {
                wrong.push(format!("a waiter was answered {woken:?}"));
            }
        }
    });
    wrong.extend(run::findings(me, true));
    // Each one's adjustments are still there, and listed.
    for this_client in &all_clients {
        if let Err(errno) = this_client.release_at_exit() {
            wrong.push(format!("{} may not leave: {errno}", this_client.client_slot()));
        }
    }
    for (what, is, should) in
        [("tokens", me.value(set, 2), before), ("rings", me.value(bell, 0), NEXT)]
    {
        if is != should {
            wrong.push(format!("{is} {what} after their end, not {should}"));
        }
    }
    me.segment_remove(segment, &ROOT).expect("a removal");
    me.set_remove(bell, &ROOT).expect("a removal");
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
}

#[expect(
    clippy::zombie_processes,
    reason = "`await_child` waits, by pid: it must also see it stop"
)]
fn stopped_at(order: &Order) -> Result<(), String> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == "reaps").expect("a scenario");
    let run = Run::new(scenario);
    let session = run.join();
    (scenario.prepare)(&session);
    run.victim(&session, &[]);
    let text = order.to_string();
    let child = run.spawn(scenario.name, &[("VSHMEM_CRASH", text.as_str())]);
    let pid = child.id();
    if run.await_child(session.client(), pid) != Rest::Stopped {
        return run.reap(&session);
    }
    run.reap_and_leave(&session)?;
    live(&session, || {
        kill_process(run::pid_of(pid), Signal::CONT).expect("SIGCONT");
        let rest = run.await_child(session.client(), pid);
        assert_eq!(rest, Rest::Ended(0), "{}", run::said(child));
    })?;
    run.reap(&session)?;
    (scenario.survive)(&session);
    (scenario.verify)(&session, order)?;
    scenario::verify_empty(&session, 0)
}

#[test]
fn reaping_that_is_stopped_anywhere_takes_nothing_of_those_who_come_next() {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == "reaps").expect("a scenario");
    let mut orders = Vec::new();
    let only = std::env::var("CRASH_ONLY").unwrap_or_default();
    for (name, times) in run::points(scenario) {
        if !name.contains(&only) {
            continue;
        }
        let mut nths = vec![1, 2, times];
        nths.retain(|nth| *nth <= times);
        nths.dedup();
        orders.extend(nths.into_iter().map(|nth| Order {
            name: name.clone(),
            nth,
            fate: Fate::Stopped,
        }));
    }
    let failed: Vec<String> = orders
        .iter()
        .filter_map(|order| stopped_at(order).err().map(|what| format!("{order}: {what}")))
        .collect();
    println!("{} runs", orders.len());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), orders.len(), failed.join("\n"));
}
