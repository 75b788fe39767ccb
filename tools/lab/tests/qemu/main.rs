//! Boots QEMU guests, and asks of them what `tests/guests` asks of User Mode Linux ones. Needs
//! root, QEMU and a kernel for the guests (scripts/setup guests qemu); where they are missing it
//! says so in its last line.

#[path = "../guests/mod.rs"]
#[allow(dead_code, reason = "each kind of guest is asked a part")]
mod guests;

mod refusal;

use std::process::ExitCode;

use vshmem_lab::GuestKind;

use guests::{commands, death, leftovers, peer, rig, run, world};

const GUEST: GuestKind = GuestKind::Qemu;
const MEMORY_MIB: u32 = 384;
const INTERFACE: &str = "eth0";
/// How much is sent over the network each way.
const STREAM: usize = 32 << 20;
const POOL_ON_HOST: bool = true;
const ROOT_IS_WRITABLE: bool = true;
/// Without a driver the pool is the third region of a PCI device, which can be mapped and is for
/// root alone.
const WRITE_TO_POOL: (&str, Option<(u32, u32)>) = (
    "python3 -c 'import mmap,glob;f=open(max(glob.glob(\"/sys/bus/pci/devices/*:05.0/resource2\")),\"r+b\");\
     mmap.mmap(f.fileno(),4096)[0:11]=b\"from guest1\"'",
    None,
);
const READ_FROM_POOL: &str = "python3 -c 'import mmap,glob;f=open(max(glob.glob(\"/sys/bus/pci/devices/*:05.0/resource2\")),\"r+b\");\
     print(mmap.mmap(f.fileno(),4096)[0:11].decode())'";

const TESTS: &[&[run::Test]] = &[
    commands::TESTS,
    world::TESTS,
    death::TESTS,
    &[
        ("the_pool_is_shared", world::the_pool_is_shared),
        ("kill_and_restart", death::kill_and_restart),
        ("down_after_the_keeper_was_killed", leftovers::down_after_the_keeper_was_killed),
        ("a_closed_pool_is_refused", leftovers::a_closed_pool_is_refused),
        ("a_pool_of_an_odd_size_is_refused", refusal::odd_size),
        ("a_driver_for_another_kernel_is_refused", refusal::other_kernel),
        ("a_failed_boot_shows_the_console", refusal::no_module),
    ],
];

fn main() -> ExitCode {
    run::main(TESTS)
}
