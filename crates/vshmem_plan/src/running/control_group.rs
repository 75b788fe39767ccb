//! The CPUs and nodes that a process's control group leaves it (cgroups(7), cpuset).

use std::path::{Path, PathBuf};

use crate::number_set::NumberSet;
use crate::settings::read;

/// What a control group leaves a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// The directory that says so.
    pub directory: PathBuf,
    /// The CPUs.
    pub cpus: NumberSet,
    /// The nodes.
    pub nodes: NumberSet,
}

impl ControlGroup {
    /// That of a process; `None` when no directory says anything.
    pub(super) fn of(root: &Path, process: &Path) -> Option<Self> {
        let text = read(root, &process.join("cgroup")).ok()??;
        let mut places = text.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let path = path.trim_start_matches('/');
            match controllers {
                "" => Some((Path::new("/sys/fs/cgroup").join(path), Version::Two)),
                names if names.split(',').any(|name| name == "cpuset") => {
                    Some((Path::new("/sys/fs/cgroup/cpuset").join(path), Version::One))
                }
                _ => None,
            }
        });
        places.find_map(|(directory, version)| with_cpuset(root, &directory, version))
    }
}

#[derive(Debug, Clone, Copy)]
enum Version {
    One,
    Two,
}

/// The group itself, or the nearest above it that has the controller.
fn with_cpuset(root: &Path, directory: &Path, version: Version) -> Option<ControlGroup> {
    let (cpus, nodes) = match version {
        Version::One => ("cpuset.effective_cpus", "cpuset.effective_mems"),
        Version::Two => ("cpuset.cpus.effective", "cpuset.mems.effective"),
    };
    let list = |directory: &Path, name: &str| {
        let text = read(root, &directory.join(name)).ok()??;
        NumberSet::from_list(&text)
    };
    directory.ancestors().take_while(|place| place.starts_with("/sys/fs/cgroup")).find_map(
        |place| {
            let (cpus, nodes) = (list(place, cpus)?, list(place, nodes)?);
            Some(ControlGroup { directory: place.to_owned(), cpus, nodes })
        },
    )
}
