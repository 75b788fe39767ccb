//! A waker that is killed at each step of its change.

use vshmem_acceptance::guests::CRASHING;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, crash};

use crate::exchange::RUN;
use crate::shared;

pub fn wakers() {
    let guests = shared();
    guests.put_crashing(1);
    let command = format!("{CRASHING}/vshmem");
    let report = crash::wakers(
        guests.pool(),
        |order| Actor::in_guest(&guests, 1, &[&command, "run"], &[("VSHMEM_CRASH", order)]),
        || Actor::in_guest(&guests, 2, RUN, &[]),
    );
    report.iter().for_each(|line| say(line));
}
