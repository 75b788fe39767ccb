//! Looking a pool over: does everything in it agree?
//!
//! Everything is read as it will be once the changes that have been committed are carried out, so
//! that a process which died or was stopped between the two is no contradiction. Every walk is
//! bounded by the size of its table, and every index is checked: a pool full of garbage yields
//! findings and nothing else.

mod heap;
mod lines;
pub(crate) mod look;
mod objects;
mod pages;
mod parties;
pub(crate) mod repair;
mod rings;
pub(crate) mod room;

use std::collections::HashMap;

use vshmem_sync::Fault;

use crate::check::look::{Finding, Look};
use crate::error::Failure;
use crate::pool::open::Pool;

/// Looks the whole pool over. Meant for a quiet pool; on a busy one a step that is under way
/// may show as a finding.
pub(crate) fn check(pool: &Pool) -> Result<Vec<Finding>, Failure> {
    let mut look =
        Look { pool, layout: pool.layout(), pending: HashMap::new(), findings: Vec::new() };
    look.everything()?;
    Ok(look.findings)
}

impl Look<'_> {
    fn everything(&mut self) -> Result<(), Fault> {
        self.locks()?;
        let parties = self.parties()?;
        let objects = self.objects(&parties)?;
        self.pages(&objects)?;
        self.attaches(&parties, &objects)?;
        let mut uses = heap::Uses::default();
        self.undos(&parties, &objects, &mut uses)?;
        self.queues(&objects, &mut uses)?;
        self.rings(&objects, &mut uses)?;
        self.sets(&objects, &mut uses)?;
        self.heap(&parties, &uses)?;
        self.lines(&parties, &objects)
    }
}
