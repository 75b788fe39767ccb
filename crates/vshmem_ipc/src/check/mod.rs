//! Checks a pool for inconsistencies.
//!
//! Everything is read as it will be once the changes that have been committed are carried out, so
//! that a process which died or was stopped between the two is no contradiction. Every walk is
//! bounded by the size of its table, and every index is checked: a pool full of garbage yields
//! findings and nothing else.

pub(crate) mod checker;
mod client_lists;
mod client_table;
mod clients;
mod heap;
mod names;
mod objects;
mod pages;
pub(crate) mod repair;
mod rings;
pub(crate) mod space;
mod wait_queues;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use vshmem_mem::{AtomicU32, futex_wait};
use vshmem_sync::Fault;

use crate::check::checker::{Checker, Finding, is_cut};
use crate::error::Failure;
use crate::pool::open::Pool;

/// How long a check waits before it looks again at a pool in which it has found something. A step
/// that is under way is over by then, unless its thread has lost its CPU.
const PAUSES: &[Duration] = if cfg!(fuzzing) {
    // Nobody else is at work.
    &[]
} else {
    &[
        Duration::from_millis(1),
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(4),
        Duration::from_millis(4),
    ]
};

/// Checks the whole pool. What is found has been found each time the check looked: while clients
/// are at work, each look finds steps that are under way, but hardly the same ones. A step of a
/// process that is stopped shows as a finding.
pub(crate) fn check(pool: &Pool) -> Result<Vec<Finding>, Failure> {
    let mut findings = check_once(pool)?;
    for &pause in PAUSES {
        if findings.is_empty() {
            break;
        }
        // No thread wakes it: a word of its own, which stays as it is.
        let _ = futex_wait(&AtomicU32::new(0), 0, pause);
        let again = check_once(pool)?;
        if !is_cut(&again) {
            let again: HashSet<Finding> = again.into_iter().collect();
            findings.retain(|finding| again.contains(finding));
        }
    }
    Ok(findings)
}

fn check_once(pool: &Pool) -> Result<Vec<Finding>, Failure> {
    let mut checker =
        Checker { pool, layout: pool.layout(), pending: HashMap::new(), findings: Vec::new() };
    checker.everything()?;
    Ok(checker.findings)
}

impl Checker<'_> {
    fn everything(&mut self) -> Result<(), Fault> {
        self.locks()?;
        let client_table = self.client_table()?;
        let objects = self.objects(&client_table)?;
        self.pages(&objects)?;
        self.attaches(&client_table, &objects)?;
        let mut uses = heap::Uses::default();
        self.names(&objects, &mut uses)?;
        self.undos(&client_table, &objects, &mut uses)?;
        self.queues(&objects, &mut uses)?;
        self.rings(&objects, &mut uses)?;
        self.long_rings(&objects, &mut uses)?;
        self.sets(&objects, &mut uses)?;
        self.heap(&client_table, &uses)?;
        self.wait_queues(&client_table, &objects)
    }
}
