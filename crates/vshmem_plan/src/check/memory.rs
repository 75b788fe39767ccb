//! A guest's memory: on which nodes it lies, and in what pages.

use std::collections::BTreeMap;

use super::Finding;
use crate::form::bytes as shown;
use crate::result::{Guest, Plan};
use crate::running::{Mapping, Monitor};

/// Where its memory lies, and in what pages if the plan has huge ones.
pub(super) fn of_guest(plan: &Plan, guest: &Guest, monitor: &Monitor) -> Vec<Finding> {
    let what = format!("{} memory", guest.name);
    let mappings = match &monitor.mappings {
        Ok(mappings) => memory(guest, mappings),
        Err(found) => return vec![unreadable(what, found)],
    };
    if mappings.is_empty() {
        let found = format!("process {} maps no memory of the planned size", monitor.pid);
        let sizes: Vec<String> = guest.cells.iter().map(|cell| shown(cell.bytes)).collect();
        let remedy = format!("start the guest as planned: `ps -f -p {}` shows how", monitor.pid);
        return vec![Finding::wrong(what, found, sizes.join(" and "), remedy)];
    }
    let mut findings = vec![nodes(what, guest, monitor, &mappings)];
    if plan.page_bytes > 4096 {
        findings.push(pages(plan, guest, &mappings));
    }
    findings
}

/// Where a guest's or a pool's memory is not known.
pub(super) fn unreadable(what: String, found: &str) -> Finding {
    if found.contains("has no NUMA") {
        return Finding::good(what, found);
    }
    Finding::wrong(what, found, "known", "run this as root: `sudo vshmem plan check`")
}

/// Its memory: what has exactly the size of one of its nodes, or else what is no smaller. QEMU's
/// translated code is executable, and a pool is a file of its own.
fn memory<'a>(guest: &Guest, mappings: &'a [Mapping]) -> Vec<&'a Mapping> {
    let is_candidate =
        |mapping: &&Mapping| !mapping.executable && !mapping.file.contains("/vshmem.");
    let all: Vec<&Mapping> = mappings.iter().filter(is_candidate).collect();
    let exact = |mapping: &&&Mapping| guest.cells.iter().any(|cell| cell.bytes == mapping.bytes);
    let matching: Vec<&Mapping> = all.iter().filter(exact).copied().collect();
    if !matching.is_empty() {
        return matching;
    }
    let least = guest.cells.iter().map(|cell| cell.bytes).min().unwrap_or(u64::MAX);
    all.into_iter().filter(|mapping| mapping.bytes >= least).collect()
}

/// What lies on a node beyond what the plan puts there has leaked.
fn nodes(what: String, guest: &Guest, monitor: &Monitor, mappings: &[&Mapping]) -> Finding {
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    for (node, bytes) in mappings.iter().flat_map(|mapping| &mapping.bytes_by_node) {
        *found.entry(*node).or_default() += bytes;
    }
    let planned = |node: u32| -> u64 {
        let cells = guest.cells.iter().filter(|cell| cell.host_node == node);
        cells.map(|cell| cell.bytes).sum()
    };
    let leaked: Vec<(u32, u64)> = found
        .iter()
        .map(|(node, bytes)| (*node, bytes.saturating_sub(planned(*node))))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let text = by_node(&found);
    let Some((away, _)) = leaked.first() else { return Finding::good(what, text) };
    let share = percent(leaked.iter().map(|(_, bytes)| bytes).sum(), found.values().sum());
    let nodes = guest.nodes();
    let home = nodes.iter().find(|node| node != away).or(nodes.iter().next()).unwrap_or(0);
    let expected: BTreeMap<u32, u64> = nodes.iter().map(|node| (node, planned(node))).collect();
    Finding::wrong(
        what,
        format!("{text}; {share} % lies on another node than planned"),
        format!("at most {}", by_node(&expected)),
        format!("`migratepages {} {away} {home}` (package numactl)", monitor.pid),
    )
}

/// `N MiB on node 0, ...`
pub(super) fn by_node(bytes: &BTreeMap<u32, u64>) -> String {
    if bytes.is_empty() {
        return "no page is in use yet".into();
    }
    let part = |(node, bytes): (&u32, &u64)| match bytes >> 20 {
        0 => format!("{} KiB on node {node}", bytes >> 10),
        megabytes => format!("{megabytes} MiB on node {node}"),
    };
    bytes.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// In whole percent, and not 0 where there is some.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(100).max(u64::from(part > 0))
}

fn pages(plan: &Plan, guest: &Guest, mappings: &[&Mapping]) -> Finding {
    let what = format!("{} huge pages", guest.name);
    let size = plan.page_bytes;
    let (huge, small): (Vec<&Mapping>, Vec<&Mapping>) =
        mappings.iter().partition(|mapping| mapping.page_bytes == size);
    let used = |mappings: &[&Mapping]| -> u64 {
        mappings.iter().flat_map(|mapping| mapping.bytes_by_node.values()).sum()
    };
    let Some(first) = small.first() else {
        return Finding::good(what, format!("{} of {}", used(&huge) / size, shown(size)));
    };
    Finding::wrong(
        what,
        format!("{} MiB lie in pages of {}", used(&small) >> 20, shown(first.page_bytes)),
        format!("pages of {}", shown(size)),
        "reserve them and start the guest anew: `vshmem plan undo`, then `vshmem plan apply`",
    )
}
