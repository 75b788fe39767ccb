//! A plan against what runs: a line for each thing that was looked at.

mod finding;
mod guest;
mod host;
mod memory;
mod pool;

use crate::result::Plan;
use crate::running::Running;

pub use finding::Finding;

/// Compares what runs with the plan.
#[must_use]
pub fn check(plan: &Plan, running: &Running) -> Vec<Finding> {
    let mut findings = host::settings(&running.host);
    for guest in &plan.guests {
        let found: Vec<_> = running.named(&guest.name).collect();
        match found[..] {
            [] => findings.push(guest::missing(guest)),
            [monitor] => {
                findings.extend(guest::threads(guest, monitor));
                findings.push(guest::control_group(guest, monitor));
                findings.extend(memory::of_guest(plan, guest, monitor));
            }
            _ => findings.push(guest::several(guest, &found)),
        }
    }
    findings.extend(pool::all(plan, running));
    findings.push(guest::others(plan, running));
    findings
}
