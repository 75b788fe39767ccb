//! A plan that is being applied: each change is recorded before it is made, so that it can be
//! undone whenever this process ends.

use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_plan::Plan;

use super::applied_plan::{AppliedPlan, Change};
use super::record_directory::RecordDirectory;
use crate::failure::Failure;
use crate::show;

/// A plan that is being applied.
pub struct Journal<'a> {
    /// Where it is kept.
    pub records: &'a RecordDirectory,
    /// What is kept.
    pub applied: AppliedPlan,
}

impl<'a> Journal<'a> {
    /// Begins, with nothing changed yet.
    pub fn begin(records: &'a RecordDirectory, name: &str, plan: Plan) -> Result<Self, Failure> {
        let applied =
            AppliedPlan { name: name.to_owned(), complete: false, changes: Vec::new(), plan };
        records.write(&applied)?;
        crash_point();
        Ok(Self { records, applied })
    }

    /// Records a change that is made next.
    pub fn record(&mut self, change: Change) -> Result<(), Failure> {
        self.applied.changes.push(change);
        self.records.write(&self.applied)?;
        crash_point();
        Ok(())
    }

    /// Records that everything was done.
    pub fn complete(&mut self) -> Result<(), Failure> {
        self.applied.complete = true;
        self.records.write(&self.applied)
    }
}

/// Says what was done. An output that cannot be written to does not undo it.
pub fn tell(line: String) {
    let _ = show::line(line);
}

/// A moment at which this process may be killed. A build with debug assertions kills itself at the
/// one that VSHMEM_PLAN_KILL_AT counts, for tests.
pub fn crash_point() {
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
