//! The pools' pages, as the guests' processes map them.

use std::collections::BTreeMap;

use super::Finding;
use super::memory::{by_node, percent};
use crate::form::bytes as shown;
use crate::number_set::NumberSet;
use crate::result::{Plan, Pool};
use crate::running::{Mapping, Monitor, Running};

pub(super) fn all(plan: &Plan, running: &Running) -> Vec<Finding> {
    plan.pools.iter().map(|pool| of(plan, pool, running)).collect()
}

fn of(plan: &Plan, pool: &Pool, running: &Running) -> Finding {
    let what = format!("pool {}", pool.name);
    let names = pool.guests.iter().filter_map(|(guest, _)| plan.guests.get(*guest));
    let monitors: Vec<&Monitor> = names.flat_map(|guest| running.named(&guest.name)).collect();
    let maps = |monitor: &&Monitor| mappings(monitor, pool).next().is_some();
    let mapped: Vec<&Monitor> = monitors.iter().copied().filter(maps).collect();
    let Some(one) = mapped.first() else {
        return unmapped(what, pool, &monitors);
    };
    let policies: NumberSet = mapped
        .iter()
        .flat_map(|monitor| mappings(monitor, pool))
        .flat_map(|mapping| mapping.policy_nodes().iter().collect::<Vec<_>>())
        .collect();
    // A page that several processes map is one page.
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    for (node, bytes) in mapped.iter().flat_map(|monitor| used(monitor, pool)) {
        let most = found.entry(node).or_default();
        *most = bytes.max(*most);
    }
    let away: Vec<u32> = found.keys().copied().filter(|node| !pool.nodes.contains(*node)).collect();
    let expected = format!("on nodes {}", pool.nodes);
    if let (Some(node), Some(home)) = (away.first(), pool.nodes.iter().next()) {
        let leaked = away.iter().filter_map(|node| found.get(node)).sum();
        let share = percent(leaked, found.values().sum());
        return Finding::wrong(
            what,
            format!("{}; {share} % lies on another node than planned", by_node(&found)),
            expected,
            format!("`migratepages {} {node} {home}` (package numactl)", one.pid),
        );
    }
    let is_bound = !policies.is_empty() && pool.nodes.contains_all(&policies);
    if !is_bound && running.nodes.len() > 1 {
        let bound = if policies.is_empty() { "no node".into() } else { policies.to_string() };
        return Finding::wrong(
            what,
            format!("{}; its further pages are bound to {bound}", by_node(&found)),
            expected,
            format!(
                "make it anew, when nobody uses it: `vshmem pool rm {0} && vshmem pool create {0} --size {1} --numa {2}`",
                pool.name,
                shown(pool.bytes),
                pool.numa_option()
            ),
        );
    }
    Finding::good(what, by_node(&found))
}

/// No guest has it.
fn unmapped(what: String, pool: &Pool, monitors: &[&Monitor]) -> Finding {
    if let Some(found) = monitors.iter().find_map(|monitor| monitor.mappings.as_ref().err()) {
        return super::memory::unreadable(what, found);
    }
    Finding::wrong(
        what,
        "no running guest of the plan maps it",
        format!("mapped by {} guests", pool.guests.len()),
        format!(
            "`vshmem pool show {} --as qemu` prints the device to start the guests with",
            pool.name
        ),
    )
}

/// How many bytes of the pool a process has mapped on which node.
fn used(monitor: &Monitor, pool: &Pool) -> BTreeMap<u32, u64> {
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    for (node, bytes) in mappings(monitor, pool).flat_map(|mapping| &mapping.bytes_by_node) {
        *used.entry(*node).or_default() += bytes;
    }
    used
}

/// The process's mappings of the pool's file.
fn mappings<'a>(monitor: &'a Monitor, pool: &Pool) -> impl Iterator<Item = &'a Mapping> {
    let name = format!("/vshmem.{}", pool.name);
    let all = monitor.mappings.as_ref().into_iter().flatten();
    all.filter(move |mapping| mapping.file.ends_with(&name))
}
