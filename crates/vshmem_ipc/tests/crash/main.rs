//! Deaths at every step: a child process runs a scenario and is killed, or stopped, at a crash
//! point; then it is buried as an agent would do it, and nothing may be wrong or lost.
//!
//! `cargo test -p vshmem_ipc --features crash-points --test crash`

#[path = "../behaviour/fixture.rs"]
#[allow(dead_code)] // shared with the tests of behaviour
mod fixture;

mod run;
mod scenario;

use run::{Order, Run};
use scenario::SCENARIOS;

/// Not a test: what a child process runs, when the environment says so.
#[test]
#[ignore = "run by the other tests, in processes of its own"]
fn child() {
    run::be_child();
}

/// Runs every scenario once per crash point that it passes.
fn everywhere(stop: bool) {
    let mut orders = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for scenario in SCENARIOS {
        let passed = run::points(scenario);
        assert!(!passed.is_empty(), "{}: no crash point at all", scenario.name);
        for (name, times) in passed {
            names.insert(name.clone());
            let mut nths = vec![1, 2, times];
            nths.retain(|nth| *nth <= times);
            nths.dedup();
            for nth in nths {
                orders.push((scenario, Order { name: name.clone(), nth, stop }));
            }
        }
    }
    let what = if stop { "stopped" } else { "killed" };
    println!("{} crash points, {} runs {what}", names.len(), orders.len());
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
    everywhere(false);
}

#[test]
fn a_process_that_stops_at_any_step_holds_nobody_up_and_spoils_nothing() {
    everywhere(true);
}
