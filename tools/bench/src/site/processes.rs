//! Two processes of this domain.

use std::path::PathBuf;

use super::place::{Job, Materials, Side, Site};
use super::spawn;
use crate::error::Result;
use crate::pool::OwnPool;

/// Two processes of this domain, on one local pool of their own.
#[derive(Debug)]
pub struct Processes {
    command: PathBuf,
    pool: OwnPool,
    cpus: [usize; 2],
}

impl Processes {
    /// With a new pool.
    ///
    /// # Errors
    /// When the pool cannot be made.
    pub fn open(materials: &Materials<'_>) -> Result<Self> {
        Ok(Self {
            command: materials.command.to_owned(),
            pool: OwnPool::make(materials.pool_bytes, &[])?,
            cpus: spawn::two_cpus(),
        })
    }

    /// The pool's name.
    #[must_use]
    pub fn pool_name(&self) -> &str {
        self.pool.name()
    }
}

impl Site for Processes {
    fn noun(&self) -> &'static str {
        "processes"
    }

    fn describe(&self) -> String {
        let [one, other] = self.cpus;
        format!(
            "two processes of one kernel on a local pool, on CPUs {one} and {other}; TCP and UDP over loopback"
        )
    }

    fn cpus(&self) -> [usize; 2] {
        self.cpus
    }

    fn run(&self, _side: Side, job: &Job) -> Result<String> {
        spawn::run(&[], job, &self.command, self.pool.name(), "on this machine")
    }
}
