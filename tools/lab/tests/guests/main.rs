//! Boots real guests. Needs root and the package user-mode-linux; where they are missing it says so
//! in its last line.
//!
//! This binary is also the lab's keeper, the guests' PID 1, and what some tests run in guests or
//! kill on the host.

mod commands;
mod death;
mod leftovers;
mod peer;
mod rig;
mod run;
mod world;

use std::process::ExitCode;

use vshmem_lab::GuestKind;

// What the modules that this binary shares with the QEMU one are to boot, and to find there.
const GUEST: GuestKind = GuestKind::Uml;
const MEMORY_MIB: u32 = 256;
const INTERFACE: &str = "vec0";
/// How much is sent over the network each way.
const STREAM: usize = 32 << 20;
const POOL_ON_HOST: bool = true;
const ROOT_IS_WRITABLE: bool = false;
/// Writes `from guest1` at the start of the pool, as that user of the guest.
const WRITE_TO_POOL: (&str, Option<(u32, u32)>) =
    ("printf 'from guest1' | dd of=/dev/mmapper conv=notrunc status=none", Some((1234, 1234)));
/// Reads it.
const READ_FROM_POOL: &str = "head -c 11 /dev/mmapper";

const TESTS: &[&[run::Test]] = &[
    commands::TESTS,
    world::TESTS,
    death::TESTS,
    &[
        ("latency", commands::latency),
        ("the_pool_is_shared", world::the_pool_is_shared),
        ("kill_and_restart", death::kill_and_restart),
        ("two_labs_at_once", leftovers::two_labs_at_once),
        ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
        ("down_after_up_was_killed", leftovers::down_after_up_was_killed),
        ("labs_without_a_keeper_give_way", leftovers::labs_without_a_keeper_give_way),
        ("a_closed_pool_is_refused", leftovers::a_closed_pool_is_refused),
        (
            "a_guest_swaps_to_a_disk_that_goes_with_it",
            leftovers::a_guest_swaps_to_a_disk_that_goes_with_it,
        ),
        ("a_failed_boot_shows_the_console", leftovers::a_failed_boot_shows_the_console),
    ],
];

fn main() -> ExitCode {
    run::main(TESTS)
}
