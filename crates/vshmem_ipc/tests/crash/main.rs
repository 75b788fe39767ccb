//! Deaths at every step: a child process runs a scenario and is killed, or stopped, or stopped and
//! evicted, at a crash point; then it is reaped as an agent would do it, and nothing may be wrong
//! or lost.
//!
//! `cargo test -p vshmem_ipc --features crash-points --test crash`
//!
//! `CRASH_ONLY='semaphores semop/written:2'` does one of the runs that a failure names 200 times.

#[path = "../behaviour/fixture.rs"]
#[allow(dead_code)] // shared with the tests of behaviour
mod fixture;

mod cost;
mod next_owners;
mod run;
mod scenario;

use fixture::{Calls, down, until, up};
use run::{Fate, Order, Run};
use rustix::process::{Signal, kill_process};
use scenario::SCENARIOS;

/// Not a test: what a child process runs, when the environment says so.
#[test]
#[ignore = "run by the other tests, in processes of its own"]
fn child() {
    run::be_child();
}

/// Runs every scenario once per crash point that it passes.
fn everywhere(fate: Fate) {
    let only = std::env::var("CRASH_ONLY").unwrap_or_default();
    let times_each = if only.is_empty() { 1 } else { 200 };
    let mut orders = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for scenario in
        SCENARIOS.iter().filter(|s| std::env::var("CRASH_SCENARIO").map_or(true, |n| n == s.name))
    {
        let passed = run::points(scenario);
        assert!(!passed.is_empty(), "{}: no crash point at all", scenario.name);
        for (name, times) in passed {
            names.insert(name.clone());
            let mut nths = vec![1, 2, times];
            nths.retain(|nth| *nth <= times);
            nths.dedup();
            for nth in nths {
                let order = Order { name: name.clone(), nth, fate };
                if only.is_empty() || format!("{} {order}", scenario.name) == only {
                    orders.extend(std::iter::repeat_n((scenario, order), times_each));
                }
            }
        }
    }
    println!("{} crash points, {} runs: {fate:?}", names.len(), orders.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    let missed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((scenario, order)) = orders.get(at) else { break };
                    let run = || Run::new(scenario).by(order);
                    let done = std::panic::catch_unwind(run)
                        .unwrap_or_else(|panic| Err(format!("panic: {}", text_of(&*panic))));
                    match done {
                        Ok(true) => {}
                        // Which way threads take is not the same each time.
                        Ok(false) => {
                            missed.lock().unwrap().push(format!("{} {order}", scenario.name))
                        }
                        Err(what) => {
                            let mut failed = failed.lock().unwrap();
                            failed.push(format!("{} {order}: {what}", scenario.name));
                        }
                    }
                }
            });
        }
    });
    let (failed, missed) = (failed.into_inner().unwrap(), missed.into_inner().unwrap());
    println!("{} runs did not come by their point: {missed:?}", missed.len());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), orders.len(), failed.join("\n"));
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "without words".to_owned())
}

#[test]
fn nothing_is_lost_when_a_process_is_killed_at_any_step() {
    everywhere(Fate::Killed);
}

#[test]
fn a_process_that_stops_at_any_step_blocks_no_client_and_spoils_nothing() {
    everywhere(Fate::Stopped);
}

#[test]
fn a_process_that_wakes_up_after_its_eviction_spoils_nothing() {
    everywhere(Fate::Evicted);
}

/// It was asleep, another thread did its work for it, and others have used what that brought.
#[test]
fn what_was_done_for_a_dead_waiter_is_taken_back_whole_or_not_at_all() {
    let scenario = &SCENARIOS[1];
    let run = Run::new(scenario);
    let session = run.join();
    let me = session.client();
    (scenario.prepare)(&session);
    let mut child = run.spawn("mover", &[]);
    let pid = child.id();
    until("asleep", || run::sleeping(me, pid) == 1);
    // It must not come to know.
    kill_process(run::pid_of(pid), Signal::STOP).expect("SIGSTOP");
    assert_eq!(run.await_child(me, pid), run::Rest::Stopped);
    let set = scenario::tokens(me);
    me.op(set, &[down(0), up(1)]).expect("a token moved to where it is waited for");
    assert_eq!(me.value(set, 2), 1, "the waiter has moved it on");
    me.op(set, &[down(2), up(0)]).expect("a token taken from there");
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    run.reap(&session).expect("reaping");
    let values: Vec<u32> = (0..3).map(|number| me.value(set, number)).collect();
    assert_eq!(values.iter().sum::<u32>(), scenario::ALL_TOKENS, "{values:?}");
}

/// It has committed its change and is stopped before it carries it out, for as long as others need
/// for 2^18 operations: as often as a word of a semaphore could once be written before it came
/// back.
#[test]
#[expect(
    clippy::zombie_processes,
    reason = "`await_child` waits, by pid: it must also see it stop"
)]
fn a_client_that_was_stopped_after_its_commit_finds_no_old_content() {
    const OPERATIONS: u32 = 1 << 18;
    let run = Run::new(&SCENARIOS[3]);
    let session = run.join();
    let me = session.client();
    scenario::prepare(&session);
    let set = scenario::tokens(me);
    std::thread::scope(|scope| {
        // As long as a thread sleeps, all operations go under the lock, and each is one write.
        let waiter = scope.spawn(|| me.op(set, &[down(2)]));
        until("asleep", || run::sleeping(me, std::process::id()) == 1);
        me.op(set, &[up(0)]).expect("a token more");
        me.op(set, &[down(0)]).expect("a token less");
        let child = run.spawn("porter", &[("VSHMEM_CRASH", "semop/committed:1:stop")]);
        assert_eq!(run.await_child(me, child.id()), run::Rest::Stopped);
        // The child's own write, which the first of these carries out, is one of them.
        for nth in 1..OPERATIONS {
            let operation = if nth % 2 == 1 { up(0) } else { down(0) };
            me.op(set, &[operation]).expect("an operation");
        }
        me.op(set, &[down(1)]).expect("the token that was moved");
        kill_process(run::pid_of(child.id()), Signal::CONT).expect("SIGCONT");
        assert_eq!(run.await_child(me, child.id()), run::Rest::Ended(0));
        let values: Vec<u32> = (0..3).map(|number| me.value(set, number)).collect();
        me.op(set, &[up(2)]).expect("the waiter's token");
        waiter.join().expect("a thread").expect("the token");
        assert_eq!(values, [scenario::ALL_TOKENS, 0, 0]);
    });
}
