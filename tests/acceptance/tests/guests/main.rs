//! Acceptance on two real guests. Needs root and the package user-mode-linux; says SKIPPED aloud
//! where they are missing.

mod across;
mod datagrams;
mod death;
mod exchange;
mod idle;
mod locks;
mod nodes;
mod objects;
mod oracle;
mod soak;
mod step;
mod top;
mod users;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::{self, Test};
use vshmem_acceptance::{Guests, Pool, guests};

const TESTS: &[&[Test]] = &[across::TESTS, datagrams::TESTS, nodes::TESTS];

static SHARED: Mutex<Option<Arc<Guests>>> = Mutex::new(None);

/// What the modules that this binary shares with the QEMU one boot.
fn machine() -> Machine {
    Machine::Uml
}

/// The files of tests/conformance with what may differ in such a guest.
fn differences(_: Machine) -> &'static [&'static str] {
    &["expected_differences.txt", "expected_differences_uml.txt"]
}

/// The lab that most tests share, booted by the first.
fn shared() -> Arc<Guests> {
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let boot = || {
        let stage = guests::programs();
        Arc::new(Guests::boot(machine(), "shared", 2, Pool::new("64M", &[]), &stage))
    };
    Arc::clone(shared.get_or_insert_with(boot))
}

fn main() -> ExitCode {
    if let Some(why) = guests::missing(machine()) {
        suite::say(&format!("NOTHING ACROSS GUESTS IS TESTED: {why}"));
        return suite::run_none(TESTS, "no guest can be booted here");
    }
    let code = suite::run(TESTS);
    drop(SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
    code
}
