//! Acceptance under Xen: a pool that dom0 makes and grants, members in dom0 and two guests. Needs
//! root, QEMU and Xen's packages (scripts/setup guests xen); says SKIPPED aloud where they are
//! missing.

mod counts;
mod oracle;
mod pool;
mod rig;
mod rival;
mod turns;
mod user;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use rig::Xen;
use vshmem_acceptance::suite::{self, Test};

const TESTS: &[Test] = &[
    ("what_does_not_fit_is_refused_before_anything_is_made", pool::too_large),
    ("a_pool_is_granted_to_dom0_and_two_guests", pool::granted),
    ("a_producer_and_a_consumer_in_two_domains_lose_nothing", turns::exchange),
    ("a_waiter_in_one_guest_is_woken_from_the_other", turns::woken),
    ("a_child_has_what_its_parent_has_attached", turns::child),
    ("a_guest_that_is_created_later_joins_and_one_is_destroyed_among_hand_overs", turns::destroyed),
    ("an_ordinary_user_uses_a_pool_whose_mode_allows_it", user::all),
    ("a_pool_that_is_removed_leaves_nothing_in_xen_or_xenstore", pool::removed),
    ("dom0_behaves_as_its_own_kernel_does", oracle::in_dom0),
    ("guest1_behaves_as_its_own_kernel_does", oracle::in_guest1),
    ("guest2_behaves_as_its_own_kernel_does", oracle::in_guest2),
    ("round_trips_beside_libxenvchan", rival::beside),
    ("hypercalls_beside_libxenvchan", counts::beside),
];

static SHARED: Mutex<Option<Arc<Xen>>> = Mutex::new(None);

/// The lab of all tests, booted by the first.
fn shared() -> Arc<Xen> {
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Arc::clone(shared.get_or_insert_with(|| Arc::new(Xen::boot("xen"))))
}

fn main() -> ExitCode {
    if let Some(why) = rig::missing() {
        suite::say(&format!("NOTHING UNDER XEN IS TESTED: {why}"));
        return suite::run_none(&[TESTS], "Xen cannot be booted here");
    }
    let code = suite::run(&[TESTS]);
    drop(SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
    code
}
