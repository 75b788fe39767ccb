//! What is done when the library is loaded.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::session::{environment, fork, join, route};

/// Only the first call counts: libraries that the program needs are set up before this one, and one
/// of them may make a call that needs this.
pub fn begin() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    vshmem_agent::remember_surroundings();
    environment::remember();
    route::remember();
    join::begin();
    fork::register();
    fork::register_late();
    join::rejoin();
}
