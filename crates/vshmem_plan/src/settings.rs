//! The kernel's settings that a plan needs: which file is to have which value.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::result::Plan;

/// Where the kernel is told not to move pages towards the CPUs that use them.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// Where the kernel is told not to merge equal pages.
pub const MERGING: &str = "/sys/kernel/mm/ksm/run";

/// A value that one of the kernel's files is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What for.
    pub purpose: String,
    /// The file, as the kernel names it.
    pub file: PathBuf,
    /// What is in it now.
    pub found: String,
    /// What is to be in it.
    pub value: String,
}

/// The settings of a host that the plan needs and that have another value now. `root`: the
/// directory in which /proc and /sys lie.
///
/// # Errors
/// A sentence: the kernel has no huge pages of that size on one of the nodes, or one of its files
/// cannot be read.
pub fn settings(plan: &Plan, root: &Path) -> Result<Vec<Setting>, String> {
    let mut wanted = Vec::new();
    let switches = [
        (NUMA_BALANCING, "the kernel moves no pages of pinned guests"),
        (MERGING, "the kernel merges no pages of different guests"),
    ];
    for (file, purpose) in switches {
        // A kernel without the file does neither.
        let Some(found) = read(root, Path::new(file))? else { continue };
        // 2 takes apart what was merged, and merges no more.
        if found != "0" && !(file == MERGING && found == "2") {
            let purpose = purpose.to_owned();
            wanted.push(Setting { purpose, file: file.into(), found, value: "0".into() });
        }
    }
    for cpu in plan.guests.iter().flat_map(|guest| guest.vcpus.iter()) {
        wanted.extend(governor(root, *cpu)?);
    }
    if plan.page_bytes > 4096 {
        for node in plan.home_nodes().iter() {
            wanted.extend(huge_pages(plan, root, node)?);
        }
    }
    Ok(wanted)
}

/// The file that says how the frequency of a CPU is chosen.
pub(crate) fn governor_file(cpu: u32) -> PathBuf {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").into()
}

fn governor(root: &Path, cpu: u32) -> Result<Option<Setting>, String> {
    const FASTEST: &str = "performance";
    let file = governor_file(cpu);
    let Some(found) = read(root, &file)? else { return Ok(None) };
    let known = read(root, &file.with_file_name("scaling_available_governors"))?;
    let can = known.is_none_or(|known| known.split_whitespace().any(|word| word == FASTEST));
    if found == FASTEST || !can {
        return Ok(None);
    }
    let purpose = format!("CPU {cpu} runs at its highest frequency");
    Ok(Some(Setting { purpose, file, found, value: FASTEST.into() }))
}

/// As many free huge pages as the guests take from that node; those in use stay counted.
fn huge_pages(plan: &Plan, root: &Path, node: u32) -> Result<Option<Setting>, String> {
    let page = plan.page_bytes;
    let directory = PathBuf::from(format!(
        "/sys/devices/system/node/node{node}/hugepages/hugepages-{}kB",
        page >> 10
    ));
    let number = |name: &str| -> Result<u64, String> {
        let file = directory.join(name);
        read(root, &file)?.and_then(|text| text.parse().ok()).ok_or(format!(
            "{}: there is no such number; the kernel has no huge pages of this size on node {node}. `ls /sys/devices/system/node/node{node}/hugepages` shows the sizes",
            file.display()
        ))
    };
    let (all, free) = (number("nr_hugepages")?, number("free_hugepages")?);
    let cells = plan.guests.iter().flat_map(|guest| &guest.cells);
    let needed: u64 =
        cells.filter(|cell| cell.host_node == node).map(|cell| cell.bytes.div_ceil(page)).sum();
    let wanted = all.saturating_sub(free) + needed;
    Ok((wanted > all).then(|| Setting {
        purpose: format!("{needed} huge pages of {} free on node {node}", crate::form::bytes(page)),
        file: directory.join("nr_hugepages"),
        found: all.to_string(),
        value: wanted.to_string(),
    }))
}

/// A file's only line; `None`: there is no such file.
pub(crate) fn read(root: &Path, file: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(below(root, file)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The process has just ended (ESRCH), or the CPU is offline (EBUSY).
        Err(error) if matches!(error.raw_os_error(), Some(3 | 16)) => Ok(None),
        Err(error) => Err(format!("{}: cannot read it: {error}", file.display())),
    }
}

/// Where a file of the kernel's lies below `root`.
#[must_use]
pub fn below(root: &Path, file: &Path) -> PathBuf {
    root.join(file.strip_prefix("/").unwrap_or(file))
}
