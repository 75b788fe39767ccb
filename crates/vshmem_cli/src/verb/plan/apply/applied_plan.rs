//! What is recorded of a plan that is applied: its changes, with what was there before.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vshmem_plan::Plan;

/// What is recorded of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct AppliedPlan {
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
        /// Its UUID.
        uuid: String,
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
