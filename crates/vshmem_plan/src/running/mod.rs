//! What runs on a host, as its /proc and /sys tell: machine monitors with their threads and memory,
//! and the kernel's settings.

mod control_group;
mod host;
mod memory;
mod monitor;

use std::path::Path;

use crate::number_set::NumberSet;
use crate::result::Plan;

pub use control_group::ControlGroup;
pub use host::HostSettings;
pub use memory::Mapping;
pub use monitor::{Monitor, Role, Thread};

/// What runs on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The processes of QEMU, by pid.
    pub monitors: Vec<Monitor>,
    /// The kernel's settings.
    pub host: HostSettings,
    /// The CPUs that are online.
    pub cpus: NumberSet,
    /// The nodes that are online.
    pub nodes: NumberSet,
}

impl Running {
    /// Reads what matters to a plan. `root`: the directory in which /proc and /sys lie.
    ///
    /// # Errors
    /// A sentence, when /proc or one of the kernel's settings cannot be read.
    pub fn read(root: &Path, plan: &Plan) -> Result<Self, String> {
        Ok(Self {
            monitors: monitor::all(root)?,
            host: HostSettings::read(root, plan)?,
            cpus: online(root, "/sys/devices/system/cpu/online")?,
            nodes: online(root, "/sys/devices/system/node/online")?,
        })
    }

    /// The processes that call their guest by this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Monitor> {
        self.monitors.iter().filter(move |monitor| monitor.guest == name)
    }
}

/// What a process of this machine maps.
///
/// # Errors
/// A sentence: it is closed to this user, or this kernel has no nodes.
pub fn mappings_of(process: u32) -> Result<Vec<Mapping>, String> {
    memory::of(Path::new("/"), Path::new(&format!("/proc/{process}")))
}

/// The threads of a process of this machine, by their numbers; none when it has ended.
#[must_use]
pub fn threads_of(process: u32) -> Vec<Thread> {
    monitor::threads(Path::new("/"), Path::new(&format!("/proc/{process}")))
}

fn online(root: &Path, file: &str) -> Result<NumberSet, String> {
    let text = crate::settings::read(root, Path::new(file))?;
    // A kernel without nodes has one.
    let text = text.unwrap_or_else(|| "0".into());
    NumberSet::from_list(&text).ok_or_else(|| format!("{file}: {text:?} is no list of numbers"))
}
