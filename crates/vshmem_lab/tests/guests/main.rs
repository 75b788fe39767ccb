//! Boots real guests. Needs root and the package user-mode-linux; where they are missing it says so in its last line.
//!
//! This binary is also the lab's keeper, the guests' PID 1, and what some tests run in guests or kill on the host.

mod commands;
mod death;
mod leftovers;
mod peer;
mod rig;
mod world;

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use vshmem_lab::{GuestKind, INIT_VERB, KEEPER_VERB, Lab};

const TESTS: &[(&str, fn())] = &[
    ("exit_codes_and_streams", commands::exit_codes_and_streams),
    ("environment_directory_and_user", commands::environment_directory_and_user),
    ("binary_data_both_ways", commands::binary_data_both_ways),
    ("many_commands_at_once", commands::many_commands_at_once),
    ("a_command_that_does_not_read", commands::a_command_that_does_not_read),
    ("signals_are_passed_on", commands::signals_are_passed_on),
    ("a_command_ends_with_its_client", commands::a_command_ends_with_its_client),
    ("a_sister_runs_commands", commands::a_sister_runs_commands),
    ("latency", commands::latency),
    ("writable_and_read_only_places", world::writable_and_read_only_places),
    ("names", world::names),
    ("the_pool_is_shared", world::the_pool_is_shared),
    ("tcp_and_udp", world::tcp_and_udp),
    ("the_host_sees_no_network", world::the_host_sees_no_network),
    ("kill_and_restart", death::kill_and_restart),
    ("a_guest_that_powers_off", death::a_guest_that_powers_off),
    ("a_paused_guest_is_not_dead", death::a_paused_guest_is_not_dead),
    ("two_labs_at_once", leftovers::two_labs_at_once),
    ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
    ("down_after_up_was_killed", leftovers::down_after_up_was_killed),
    ("a_closed_pool_is_refused", leftovers::a_closed_pool_is_refused),
    ("a_failed_boot_shows_the_console", leftovers::a_failed_boot_shows_the_console),
];

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let verb = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let done = match verb {
        KEEPER_VERB => vshmem_lab::keeper(&words[1..]).map_err(|error| error.to_string()),
        INIT_VERB => vshmem_lab::guest_init().map_err(|error| error.to_string()),
        peer::ECHO => peer::echo(),
        peer::ASK => peer::ask(&words[1..]),
        rig::UP => rig::up_only(&words[1..]),
        rig::EXEC => rig::exec_only(&words[1..]),
        _ => return run(verb),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(filter: &str) -> ExitCode {
    let filter = if filter.starts_with('-') { "" } else { filter };
    let missing = Lab::check(GuestKind::Uml);
    if !missing.is_empty() {
        missing.iter().for_each(|one| eprintln!("  - {one}"));
        println!(
            "SKIPPED: no guest was booted and NOTHING OF THE LAB WAS TESTED, for the reasons above"
        );
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(filter)) {
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
    println!("{} of {count} tests passed; failed: {failed:?}", count - failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
