//! Acceptance on real QEMU guests: what is asked of User Mode Linux guests, by the same code, and
//! what only these can show. Needs root, QEMU and a kernel for the guests (scripts/setup guests
//! qemu); says SKIPPED aloud where they are missing.
//!
//! VSHMEM_TEST_DEVICE=plain, doorbell or dax says how the guests are given the pool; without the
//! driver: =plain-sysfs.

#[path = "../guests/across.rs"]
mod across;
#[path = "../guests/death.rs"]
mod death;
mod devices;
#[path = "../guests/exchange.rs"]
mod exchange;
mod four;
#[path = "../guests/idle.rs"]
mod idle;
mod late_driver;
#[path = "../guests/locks.rs"]
mod locks;
#[path = "../guests/objects.rs"]
mod objects;
#[path = "../guests/oracle.rs"]
mod oracle;
mod rights;
#[path = "../guests/soak.rs"]
mod soak;
#[path = "../guests/step.rs"]
mod step;
#[path = "../guests/top.rs"]
mod top;
mod turns;
mod two_pools;
#[path = "../guests/users.rs"]
mod users;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex};

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::{self, Test};
use vshmem_acceptance::{Guests, build, guests};
use vshmem_lab::Device;

const TESTS: &[&[Test]] = &[
    across::TESTS,
    &[
        ("a_guest_killed_in_the_middle_of_a_thousand_hand_overs_comes_again", turns::killed),
        ("a_server_killed_in_the_middle_of_hand_overs_harms_nobody", turns::served_anew),
        ("an_ordinary_user_of_a_guest_can_do_everything", rights::ordinary),
        ("a_user_without_rights_on_the_device_is_told_so", rights::closed),
        ("members_use_a_pool_whose_driver_came_after_root", late_driver::members),
        ("a_guest_behaves_so_on_every_device", devices::all),
        ("members_of_one_pool_see_nothing_of_another_pools_guests", two_pools::matrix),
        ("four_guests_and_the_host_are_five_members_of_one_pool", four::turns),
    ],
];

/// What the modules that this binary shares with the User Mode Linux one boot.
static MACHINE_OF_THIS_RUN: LazyLock<Machine> = LazyLock::new(|| {
    let driver = build::driver().is_some();
    let device = match std::env::var("VSHMEM_TEST_DEVICE").unwrap_or_default().as_str() {
        "plain" => Device::Plain,
        "plain-sysfs" => return Machine::Qemu { device: Device::Plain, driver: false },
        "doorbell" => Device::Doorbell,
        "dax" => Device::Dax,
        "" if driver => Device::Doorbell,
        "" => Device::Plain,
        other => panic!("VSHMEM_TEST_DEVICE={other}: plain, plain-sysfs, doorbell or dax"),
    };
    Machine::Qemu { device, driver: driver && device != Device::Dax }
});

/// The files of tests/conformance with what may differ in such a guest.
fn differences(machine: Machine) -> &'static [&'static str] {
    match machine {
        Machine::Qemu { device: Device::Plain, driver: false } => {
            &["expected_differences.txt", "expected_differences_sysfs.txt"]
        }
        Machine::Qemu { device: Device::Dax, .. } => {
            &["expected_differences.txt", "expected_differences_dax.txt"]
        }
        _ => &["expected_differences.txt"],
    }
}

static SHARED: Mutex<Option<Arc<Guests>>> = Mutex::new(None);

fn machine() -> Machine {
    *MACHINE_OF_THIS_RUN
}

/// The lab that most tests share, booted by the first.
fn shared() -> Arc<Guests> {
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let boot = || {
        let pool = machine().pool("64M");
        Arc::new(Guests::boot(machine(), "shared", 2, pool, &guests::programs()))
    };
    Arc::clone(shared.get_or_insert_with(boot))
}

/// Takes it down: two CPUs have enough to do with the guests that come now.
fn close_shared() {
    drop(SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
}

fn main() -> ExitCode {
    if let Some(why) = guests::missing(machine()) {
        suite::say(&format!("NOTHING ACROSS QEMU GUESTS IS TESTED: {why}"));
        return suite::run_none(TESTS, "no QEMU guest can be booted here");
    }
    suite::say(&format!("guests: QEMU, {}", machine()));
    let code = suite::run(TESTS);
    close_shared();
    code
}
