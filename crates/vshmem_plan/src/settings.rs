//! The kernel's settings that a plan needs: which file is to have which value.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::result::{Guest, Plan};

/// The setting by which the kernel does not move pages towards the CPUs that use them.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// The setting by which the kernel does not merge equal pages.
pub const MERGING: &str = "/sys/kernel/mm/ksm/run";
/// What is switched off, and what for.
pub(crate) const SWITCHES: [(&str, &str); 2] = [
    (NUMA_BALANCING, "the kernel moves no pages of pinned guests"),
    (MERGING, "the kernel merges no pages of different guests"),
];
/// The governor that keeps a CPU at its highest frequency.
pub(crate) const FASTEST: &str = "performance";

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
    for (file, purpose) in SWITCHES {
        // A kernel without the file does neither.
        let Some(found) = read(root, Path::new(file))? else { continue };
        // 2 takes apart what was merged, and merges no more.
        if found != "0" && !(file == MERGING && found == "2") {
            let purpose = purpose.to_owned();
            wanted.push(Setting { purpose, file: file.into(), found, value: "0".into() });
        }
    }
    for cpu in plan.guests.iter().flat_map(|guest| guest.vcpus.iter()) {
        wanted.extend(fastest(root, *cpu)?);
    }
    if plan.page_bytes > 4096 {
        for node in plan.home_nodes().iter() {
            wanted.extend(huge_pages(plan, root, node)?);
        }
    }
    Ok(wanted)
}

/// Whether the plan needs a certain value in this file of the kernel's.
#[must_use]
pub fn needs(plan: &Plan, file: &Path) -> bool {
    let is_count_of =
        |node| file == huge_page_directory(plan.page_bytes, node).join("nr_hugepages");
    SWITCHES.iter().any(|(switch, _)| file == Path::new(switch))
        || plan.guest_cpus().iter().any(|cpu| file == governor_file(cpu))
        || plan.page_bytes > 4096 && plan.home_nodes().iter().any(is_count_of)
}

/// The file that says how the frequency of a CPU is chosen.
fn governor_file(cpu: u32) -> PathBuf {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").into()
}

/// How the frequency of a CPU is chosen now. `None`: the kernel does not choose it, or cannot
/// choose the highest, as the CPU's driver has no such governor and keeps its own.
pub(crate) fn governor(root: &Path, cpu: u32) -> Result<Option<String>, String> {
    let file = governor_file(cpu);
    let known = read(root, &file.with_file_name("scaling_available_governors"))?;
    let can = known.is_none_or(|known| known.split_whitespace().any(|word| word == FASTEST));
    if can { read(root, &file) } else { Ok(None) }
}

fn fastest(root: &Path, cpu: u32) -> Result<Option<Setting>, String> {
    let found = governor(root, cpu)?.filter(|found| found != FASTEST);
    Ok(found.map(|found| Setting {
        purpose: format!("CPU {cpu} runs at its highest frequency"),
        file: governor_file(cpu),
        found,
        value: FASTEST.into(),
    }))
}

/// Where the kernel counts the huge pages of a node.
pub(crate) fn huge_page_directory(page: u64, node: u32) -> PathBuf {
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{}kB", page >> 10).into()
}

/// Where it counts those that are free and promised to a process, which no node has for itself.
pub(crate) fn promised_file(page: u64) -> PathBuf {
    format!("/sys/kernel/mm/hugepages/hugepages-{}kB/resv_hugepages", page >> 10).into()
}

/// How many huge pages the guests take from a node.
pub(crate) fn huge_pages_of(guests: &[Guest], page: u64, node: u32) -> u64 {
    let cells = guests.iter().flat_map(|guest| &guest.cells);
    cells.filter(|cell| cell.host_node == node).map(|cell| cell.bytes.div_ceil(page)).sum()
}

/// As many free huge pages as the guests take from that node. Those in use stay counted, and those
/// that are promised, too: each may be one of this node.
fn huge_pages(plan: &Plan, root: &Path, node: u32) -> Result<Option<Setting>, String> {
    let page = plan.page_bytes;
    let directory = huge_page_directory(page, node);
    let number = |name: &str| -> Result<u64, String> {
        let file = directory.join(name);
        read(root, &file)?.and_then(|text| text.parse().ok()).ok_or(format!(
            "{}: there is no such number; the kernel has no huge pages of this size on node {node}. `ls /sys/devices/system/node/node{node}/hugepages` shows the sizes",
            file.display()
        ))
    };
    let (all, free) = (number("nr_hugepages")?, number("free_hugepages")?);
    let promised = read(root, &promised_file(page))?.and_then(|text| text.parse().ok());
    let needed = huge_pages_of(&plan.guests, page, node);
    let wanted = all.saturating_sub(free) + promised.unwrap_or(0) + needed;
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
