//! Boots QEMU guests, and asks of them what `tests/guests` asks of User Mode Linux ones. Needs root, QEMU and a kernel for
//! the guests (scripts/setup guests qemu); where they are missing it says so in its last line.

#[path = "../guests/commands.rs"]
#[allow(dead_code)]
mod commands;
#[path = "../guests/death.rs"]
mod death;
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
mod world;

use std::process::ExitCode;

use vshmem_lab::GuestKind;

const GUEST: GuestKind = GuestKind::Qemu;
const MEMORY_MIB: u32 = 384;
const INTERFACE: &str = "eth0";
/// How much is sent over the network each way.
const STREAM: usize = 32 << 20;
const POOL_ON_HOST: bool = true;
const ROOT_IS_WRITABLE: bool = true;
/// Without a driver the pool is the third region of a PCI device, which can be mapped and is for root alone.
const WRITE_TO_POOL: (&str, Option<(u32, u32)>) = (
    "python3 -c 'import mmap,glob;f=open(max(glob.glob(\"/sys/bus/pci/devices/*:05.0/resource2\")),\"r+b\");\
     mmap.mmap(f.fileno(),4096)[0:11]=b\"from guest1\"'",
    None,
);
const READ_FROM_POOL: &str = "python3 -c 'import mmap,glob;f=open(max(glob.glob(\"/sys/bus/pci/devices/*:05.0/resource2\")),\"r+b\");\
     print(mmap.mmap(f.fileno(),4096)[0:11].decode())'";

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
    ("the_pool_is_shared", world::the_pool_is_shared),
    ("tcp_and_udp", world::tcp_and_udp),
    ("the_host_sees_no_network", world::the_host_sees_no_network),
    ("kill_and_restart", death::kill_and_restart),
    ("a_guest_that_powers_off", death::a_guest_that_powers_off),
    ("a_paused_guest_is_not_dead", death::a_paused_guest_is_not_dead),
    ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
    ("a_closed_pool_is_refused", leftovers::a_closed_pool_is_refused),
    ("a_pool_of_an_odd_size_is_refused", refusal::odd_size),
    ("a_driver_for_another_kernel_is_refused", refusal::other_kernel),
    ("a_failed_boot_shows_the_console", refusal::no_module),
];

fn main() -> ExitCode {
    run::main(TESTS)
}
