//! Checks a pool for inconsistencies.
//!
//! Everything is read as it will be once the changes that have been committed are carried out, so
//! that a process which died or was stopped between the two is no contradiction. Every walk is
//! bounded by the size of its table, and every index is checked: a pool full of garbage yields
//! findings and nothing else.

mod client_lists;
mod client_table;
mod clients;
mod heap;
pub(crate) mod look;
mod objects;
mod pages;
pub(crate) mod repair;
mod rings;
pub(crate) mod space;
mod wait_queues;

use std::collections::HashMap;

use vshmem_sync::Fault;

use crate::check::look::{Checker, Finding};
use crate::error::Failure;
use crate::pool::open::Pool;

/// Checks the whole pool. Meant for a quiet pool; on a busy one a step that is under way may show
/// as a finding.
pub(crate) fn check(pool: &Pool) -> Result<Vec<Finding>, Failure> {
    let mut look =
        Checker { pool, layout: pool.layout(), pending: HashMap::new(), findings: Vec::new() };
    look.everything()?;
    Ok(look.findings)
}

impl Checker<'_> {
    fn everything(&mut self) -> Result<(), Fault> {
        self.locks()?;
        let client_table = self.client_table()?;
        let objects = self.objects(&client_table)?;
        self.pages(&objects)?;
        self.attaches(&client_table, &objects)?;
        let mut uses = heap::Uses::default();
        self.undos(&client_table, &objects, &mut uses)?;
        self.queues(&objects, &mut uses)?;
        self.rings(&objects, &mut uses)?;
        self.sets(&objects, &mut uses)?;
        self.heap(&client_table, &uses)?;
        self.wait_queues(&client_table, &objects)
    }
}
