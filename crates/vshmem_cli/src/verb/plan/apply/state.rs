//! What is noted of a plan that is applied: each change before it is made, with what was there, so
//! that it can be taken back whenever this process ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use vshmem_plan::Plan;

use super::place::Place;
use crate::failure::Failure;

/// What is noted of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Whether everything was done.
    pub complete: bool,
    /// The changes, in the order in which they were made. The last may not have been made.
    pub changes: Vec<Change>,
    /// The plan.
    pub plan: Plan,
}

/// A change of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A value of one of the kernel's files.
    Setting {
        /// The file, as the kernel names it.
        file: PathBuf,
        /// What was in it.
        found: String,
        /// What is written.
        value: String,
    },
    /// A pool that was not there.
    Pool {
        /// Its name.
        name: String,
    },
    /// A process of QEMU.
    Guest {
        /// The guest's name.
        name: String,
        /// Its pid.
        pid: u32,
        /// When it started: what tells it from others that have had its pid.
        start: u64,
    },
    /// A domain of libvirt.
    Domain {
        /// The guest's name.
        name: String,
        /// The domain's UUID.
        uuid: String,
        /// libvirt's address.
        connect: String,
    },
}

/// A plan that is being applied.
pub struct Journal<'a> {
    /// Where it is kept.
    pub place: &'a Place,
    /// What is kept.
    pub state: State,
}

impl<'a> Journal<'a> {
    /// Begins, with nothing changed yet.
    pub fn begin(place: &'a Place, name: &str, plan: Plan) -> Result<Self, Failure> {
        let state = State { name: name.to_owned(), complete: false, changes: Vec::new(), plan };
        place.write(&state)?;
        moment();
        Ok(Self { place, state })
    }

    /// Notes a change that is made next.
    pub fn record(&mut self, change: Change) -> Result<(), Failure> {
        self.state.changes.push(change);
        self.place.write(&self.state)?;
        moment();
        Ok(())
    }

    /// Notes that everything was done.
    pub fn complete(&mut self) -> Result<(), Failure> {
        self.state.complete = true;
        self.place.write(&self.state)
    }
}

/// A moment at which this process may be killed. A build with debug assertions kills itself at the
/// one that VSHMEM_PLAN_KILL_AT counts, for tests.
pub fn moment() {
    static MOMENTS: AtomicU32 = AtomicU32::new(0);
    let now = MOMENTS.fetch_add(1, Ordering::Relaxed) + 1;
    if cfg!(debug_assertions) {
        let wanted = std::env::var("VSHMEM_PLAN_KILL_AT").ok();
        if wanted.is_some_and(|number| number.parse() == Ok(now)) {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
    }
}
