//! The same deaths, of a whole guest: clients in a User Mode Linux guest come each to a crash point
//! and stop there; then the guest is killed with all of them, or paused, evicted and resumed. The
//! host is the member that goes on.
//!
//! CRASH_GUEST_BOOTS says how many boots each of the two may take: 4 by default, with 16 clients
//! in each; `all`: as many as it takes to come to every crash point; `each`: one for every crash
//! point, so that no later client finishes what the one before has left (about 25 minutes for
//! each of the two). CRASH_SCENARIO names one of the scenarios, whose crash points alone are come
//! to; CRASH_POINT has them be those whose names contain it.

#[path = "../behaviour/fixture.rs"]
#[allow(dead_code)] // shared with the tests of behaviour
mod fixture;
#[allow(dead_code)] // shared with the deaths of single processes
mod run;
#[allow(dead_code)] // as above
mod scenario;

mod guest;
mod plan;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use vshmem_lab::{GuestKind, Lab};

use guest::{Ground, Tally};
use plan::Batch;

/// One test: what becomes of the guest.
type Test = (&'static str, fn(&Ground, &Batch, &mut Tally) -> Result<(), String>);

const TESTS: [Test; 2] = [
    ("nothing_is_lost_when_a_guest_is_killed_whole", guest::kill_whole),
    ("a_paused_guest_that_wakes_up_after_its_eviction_spoils_nothing", guest::evict_paused),
];

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let verb = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let done = match verb {
        _ if let Some(done) = vshmem_lab::hidden_verb(&words) => {
            done.map_err(|error| error.to_string())
        }
        guest::RUNNER => guest::be_runner().map_err(|error| error.to_string()),
        _ if std::env::var_os(run::SCENARIO).is_some() => {
            run::be_child();
            Ok(())
        }
        _ => return all(verb),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(filter: &str) -> ExitCode {
    let filter = if filter.starts_with('-') { "" } else { filter };
    let missing = Lab::check(GuestKind::Uml);
    if !missing.is_empty() {
        missing.iter().for_each(|one| eprintln!("  - {one}"));
        println!("SKIPPED: no guest can be booted here, for the reasons above");
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    let (boots, together) = match std::env::var("CRASH_GUEST_BOOTS").as_deref() {
        Ok("each") => (usize::MAX, 1),
        Ok("all") => (usize::MAX, 16),
        Ok(text) => (text.parse().unwrap_or(4), 16),
        Err(_) => (4, 16),
    };
    let (mut passed, mut failed) = (0, 0);
    let plan = plan::make(together);
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(filter)) {
        let begun = Instant::now();
        let mut tally = Tally::default();
        let mut wrong = Vec::new();
        for (at, batch) in plan.choose(boots).enumerate() {
            let ground = Ground::new(batch.alone());
            if let Err(what) = test(&ground, batch, &mut tally) {
                wrong.push(format!("boot {at}, {batch}: {what}"));
            }
        }
        println!(
            "{} crash points covered of {}, in {} boots and {:.0} s; {} locks were held at the end of a guest",
            tally.points.len(),
            plan.points,
            tally.boots,
            begun.elapsed().as_secs_f64(),
            tally.locks
        );
        if !tally.missed.is_empty() {
            println!("not come by: {:?}", tally.missed);
        }
        if wrong.is_empty() {
            passed += 1;
            println!("test {name} ... ok");
        } else {
            failed += 1;
            println!("test {name} ... FAILED\n{}", wrong.join("\n"));
        }
    }
    println!(
        "test result: {}. {passed} passed; {failed} failed; 0 ignored",
        if failed == 0 { "ok" } else { "FAILED" }
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
