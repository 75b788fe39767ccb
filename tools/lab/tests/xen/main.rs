//! Boots Xen with its domains, and asks of them what `tests/guests` asks of User Mode Linux guests.
//! Needs root, QEMU, Xen unpacked and a kernel for the domains (scripts/setup guests xen); where
//! they are missing it says so in its last line.

#[path = "../guests/mod.rs"]
#[allow(dead_code, reason = "each kind of guest is asked a part")]
mod guests;

mod dom0;
mod refusal;

use std::process::ExitCode;

use vshmem_lab::GuestKind;

use guests::{commands, death, leftovers, peer, rig, run, world};

const GUEST: GuestKind = GuestKind::Xen;
const MEMORY_MIB: u32 = 224;
const INTERFACE: &str = "eth0";
/// How much is sent over the network each way.
const STREAM: usize = 4 << 20;
const POOL_ON_HOST: bool = false;
const ROOT_IS_WRITABLE: bool = true;
/// The lab's pool is not the host's, so there is nothing to look into.
const WRITE_TO_POOL: (&str, Option<(u32, u32)>) = ("false", None);
const READ_FROM_POOL: &str = "false";

const TESTS: &[&[run::Test]] = &[
    commands::TESTS,
    world::TESTS,
    &[
        ("dom0_runs_commands_on_the_hosts_files", dom0::commands),
        ("dom0_and_its_domains_have_xens_devices", dom0::devices),
        ("domains_have_dom0s_time", dom0::clocks),
        ("a_domain_takes_no_orders_for_dom0", dom0::orders),
        ("kill_and_restart", dom0::kill_and_restart),
    ],
    death::TESTS,
    &[
        ("two_emulated_processors", dom0::two_processors),
        ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
        ("what_means_nothing_to_xen_is_refused", refusal::options),
        ("a_failed_boot_shows_the_console", refusal::boot),
    ],
];

fn main() -> ExitCode {
    run::main(TESTS)
}
