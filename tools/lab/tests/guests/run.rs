//! Running the tests of one kind of guest.

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use vshmem_lab::Lab;

use crate::{peer, rig};

/// One test.
pub type Test = (&'static str, fn());

/// The verbs of this binary, and else its tests, group after group.
pub fn main(tests: &[&[Test]]) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let verb = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let done = match verb {
        _ if let Some(done) = vshmem_lab::hidden_verb(&words) => {
            done.map_err(|error| error.to_string())
        }
        peer::ECHO => peer::echo(),
        peer::ASK => peer::ask(&words[1..]),
        rig::UP => rig::up_only(&words[1..]),
        rig::EXEC => rig::exec_only(&words[1..]),
        _ => return run(tests, verb),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(tests: &[&[Test]], filter: &str) -> ExitCode {
    let filter = if filter.starts_with('-') { "" } else { filter };
    let missing = Lab::check(crate::GUEST);
    if !missing.is_empty() {
        missing.iter().for_each(|one| eprintln!("  - {one}"));
        println!(
            "SKIPPED: no {} guest was booted and NOTHING OF THE LAB WAS TESTED, for the reasons above",
            crate::GUEST
        );
        println!("1 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, test) in tests.iter().copied().flatten().filter(|(name, _)| name.contains(filter)) {
        let start = Instant::now();
        count += 1;
        match catch_unwind(test) {
            Ok(()) => println!("test {name} ... ok ({:.2} s)", start.elapsed().as_secs_f64()),
            Err(_) => {
                println!("test {name} ... FAILED");
                failed.push(*name);
            }
        }
    }
    rig::close();
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    println!("{} passed, {} failed", count - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
