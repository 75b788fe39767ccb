//! Acceptance on two real guests. Needs root and the package user-mode-linux; says SKIPPED aloud where they are missing.

mod death;
mod exchange;
mod idle;
mod oracle;
mod soak;
mod step;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::{self, Test};
use vshmem_acceptance::{Guests, Pool, guests};

const TESTS: &[Test] = &[
    ("a_matrix_filled_in_one_guest_is_checked_in_the_other", exchange::matrix),
    ("a_semop_asleep_in_one_guest_is_released_from_the_other", exchange::semop),
    ("msgrcv_by_positive_and_negative_type_across_guests", exchange::types),
    ("ten_thousand_hand_overs_and_none_lost", exchange::hand_overs),
    ("a_hundred_thousand_messages_and_none_lost_doubled_or_reordered", exchange::flood),
    ("a_guest_and_the_host_exchange_on_one_pool", exchange::host_and_guest),
    ("a_killed_process_gives_its_semaphore_to_a_waiter_in_the_other_guest", death::process),
    ("an_agent_killed_alone_is_replaced", death::agent_alone),
    ("an_agent_and_a_client_killed_together_leave_nobody_asleep", death::agent_and_client),
    (
        "an_agent_and_the_last_client_killed_together_are_buried_for_the_next_program",
        death::agent_and_last,
    ),
    ("a_waker_killed_at_any_step_leaves_nobody_asleep", step::wakers),
    ("a_killed_guest_gives_back_what_it_held_and_comes_again", death::guest),
    ("a_guest_behaves_as_its_own_kernel_does", oracle::probe),
    ("killed_at_random_in_two_guests_and_on_the_host_nothing_is_lost", soak::soak),
    ("idle_sleepers_wake_seldom", idle::sleepers),
];

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
