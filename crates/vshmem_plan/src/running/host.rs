//! The kernel's settings that break a plan.

use std::path::Path;

use crate::result::Plan;
use crate::settings::{MERGING, NUMA_BALANCING, governor, read};

/// The kernel's settings, as their files have them. `None`: the kernel has no such file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Whether pages are moved towards the CPUs that use them.
    pub numa_balancing: Option<String>,
    /// Whether equal pages are merged (KSM).
    pub merging: Option<String>,
    /// How the frequency of each of the guests' CPUs is chosen, of those that can be kept at their
    /// highest.
    pub governors: Vec<(u32, String)>,
}

impl HostSettings {
    pub(super) fn read(root: &Path, plan: &Plan) -> Result<Self, String> {
        let mut governors = Vec::new();
        for cpu in plan.guest_cpus().iter() {
            governors.extend(governor(root, cpu)?.map(|word| (cpu, word)));
        }
        Ok(Self {
            numa_balancing: read(root, Path::new(NUMA_BALANCING))?,
            merging: read(root, Path::new(MERGING))?,
            governors,
        })
    }
}
