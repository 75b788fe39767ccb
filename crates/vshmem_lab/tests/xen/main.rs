//! Boots Xen with its domains, and asks of them what `tests/guests` asks of User Mode Linux guests. Needs root, QEMU, Xen
//! unpacked and a kernel for the domains (scripts/setup guests xen); where they are missing it says so in its last line.

#[path = "../guests/commands.rs"]
#[allow(dead_code)]
mod commands;
#[path = "../guests/death.rs"]
#[allow(dead_code)]
mod death;
mod dom0;
#[path = "../guests/leftovers.rs"]
#[allow(dead_code)]
mod leftovers;
#[path = "../guests/peer.rs"]
mod peer;
mod refusal;
#[path = "../guests/rig.rs"]
mod rig;
#[path = "../guests/run.rs"]
mod run;
#[path = "../guests/world.rs"]
#[allow(dead_code)]
mod world;

use std::process::ExitCode;

use vshmem_lab::GuestKind;

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

const TESTS: &[run::Test] = &[
    ("exit_codes_and_streams", commands::exit_codes_and_streams),
    ("environment_directory_and_user", commands::environment_directory_and_user),
    ("binary_data_both_ways", commands::binary_data_both_ways),
    ("many_commands_at_once", commands::many_commands_at_once),
    ("a_command_that_does_not_read", commands::a_command_that_does_not_read),
    ("signals_are_passed_on", commands::signals_are_passed_on),
    ("a_command_ends_with_its_client", commands::a_command_ends_with_its_client),
    ("a_sister_runs_commands", commands::a_sister_runs_commands),
    ("writable_and_read_only_places", world::writable_and_read_only_places),
    ("names", world::names),
    ("tcp_and_udp", world::tcp_and_udp),
    ("the_host_sees_no_network", world::the_host_sees_no_network),
    ("dom0_runs_commands_on_the_hosts_files", dom0::commands),
    ("dom0_and_its_domains_have_xens_devices", dom0::devices),
    ("domains_have_dom0s_time", dom0::clocks),
    ("a_domain_takes_no_orders_for_dom0", dom0::orders),
    ("kill_and_restart", dom0::kill_and_restart),
    ("a_guest_that_powers_off", death::a_guest_that_powers_off),
    ("a_paused_guest_is_not_dead", death::a_paused_guest_is_not_dead),
    ("two_emulated_processors", dom0::two_processors),
    ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
    ("what_means_nothing_to_xen_is_refused", refusal::options),
    ("a_failed_boot_shows_the_console", refusal::boot),
];

fn main() -> ExitCode {
    run::main(TESTS)
}
