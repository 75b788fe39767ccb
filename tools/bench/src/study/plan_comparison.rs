//! The comparison that a plan is made for: the same programs in one kernel, in one guest, and in
//! several guests; and what of it a machine cannot show.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::case::Case;
use super::environment::Environment;

/// The environments that are compared: the machine itself, one wide guest, guests side by side.
const ENVIRONMENTS: [Environment; 3] =
    [Environment::Native, Environment::Guest, Environment::Guests];

/// What decides how much of the comparison a machine can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanComparison {
    /// Sockets of this machine.
    pub sockets: usize,
    /// Its NUMA nodes.
    pub nodes: usize,
    /// Whether guests of a lab are used, which may have several CPUs each.
    pub has_lab: bool,
}

impl PlanComparison {
    /// Of this machine.
    #[must_use]
    pub fn here(has_lab: bool) -> Self {
        Self::of(Path::new("/sys/devices/system"), has_lab)
    }

    fn of(system: &Path, has_lab: bool) -> Self {
        let numbered = |directory: &str, prefix: &str| {
            let entries = fs::read_dir(system.join(directory)).into_iter().flatten().flatten();
            let is_numbered = |name: &String| {
                let number = name.strip_prefix(prefix);
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            };
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.filter(is_numbered).collect::<Vec<_>>()
        };
        let package = |cpu: &String| {
            let file = system.join("cpu").join(cpu).join("topology/physical_package_id");
            fs::read_to_string(file).ok()
        };
        let sockets: HashSet<String> = numbered("cpu", "cpu").iter().filter_map(package).collect();
        Self {
            sockets: sockets.len().max(1),
            nodes: numbered("node", "node").len().max(1),
            has_lab,
        }
    }

    /// Of these cases, those that are compared: of benchmarks that run in one kernel and in guests.
    #[must_use]
    pub fn cases(all: Vec<Case>) -> Vec<Case> {
        let benches = |place: Environment| -> HashSet<String> {
            let there = all.iter().filter(|case| case.environment == place);
            there.map(|case| case.bench.clone()).collect()
        };
        let native = benches(Environment::Native);
        let guests = benches(Environment::Guests);
        let mut cases = all;
        cases.retain(|case| {
            ENVIRONMENTS.contains(&case.environment)
                && native.contains(&case.bench)
                && guests.contains(&case.bench)
        });
        cases
    }

    /// What the comparison does not show here, a sentence each. `unplanned`: why nothing is placed.
    #[must_use]
    pub fn limits(&self, unplanned: Option<&str>) -> Vec<String> {
        let mut limits = Vec::new();
        if let Some(why) = unplanned {
            limits.push(format!(
                "Nothing is placed by a plan, and no pages are counted: {why}. `vshmem plan --as json` shows what can be planned, and --plan=FILE takes it."
            ));
        }
        if self.sockets < 2 {
            limits.push(
                "This machine has one socket: guests side by side share it, so the cost of access across sockets is not shown.".into(),
            );
        }
        if self.nodes < 2 {
            limits.push(
                "It has one NUMA node: pages on the wrong node, and huge pages by node, are not shown.".into(),
            );
        }
        if !self.has_lab {
            limits.push(
                "Guests are User Mode Linux with one CPU each: one wide guest with the CPUs of all others is not shown. For that, boot guests with `vshmem lab up --guest qemu --cpus N` where there is KVM, and name them with --lab.".into(),
            );
        }
        if unplanned.is_none() {
            limits.push(
                "Guests are moved to the plan's CPUs after they have booted: what they had touched by then stays on its node, and is counted there.".into(),
            );
        }
        limits.push(
            "Huge pages of the host, of the guest and of both are not switched here: set them, run again into another directory, and use `vshmem bench compare`.".into(),
        );
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::catalogue::{Extent, catalogue};

    #[test]
    fn sockets_and_nodes_are_counted() {
        let system = tempfile::tempdir().unwrap();
        for (cpu, socket) in [("cpu0", "0"), ("cpu1", "0"), ("cpu2", "1"), ("cpufreq", "7")] {
            let topology = system.path().join("cpu").join(cpu).join("topology");
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("physical_package_id"), socket).unwrap();
        }
        for node in ["node0", "node1", "power"] {
            fs::create_dir_all(system.path().join("node").join(node)).unwrap();
        }
        let two = PlanComparison::of(system.path(), true);
        assert_eq!(two, PlanComparison { sockets: 2, nodes: 2, has_lab: true });
        assert!(two.limits(None).iter().all(|limit| !limit.contains("socket:")), "{two:?}");
        let empty = PlanComparison::of(Path::new("/nonexistent"), false);
        assert_eq!(empty, PlanComparison { sockets: 1, nodes: 1, has_lab: false });
        assert_eq!(empty.limits(Some("it has one CPU")).len(), 5);
    }

    #[test]
    fn what_is_compared_runs_in_one_kernel_and_in_guests() {
        let cases = PlanComparison::cases(catalogue(Extent::Default, None));
        for bench in ["laplace", "sync", "hpcc", "cg-A-x"] {
            for place in [Environment::Native, Environment::Guests] {
                let is_it = |case: &&Case| case.bench == bench && case.environment == place;
                assert!(cases.iter().any(|case| is_it(&case)), "{bench} {place:?}");
            }
        }
        assert!(cases.iter().all(|case| case.environment != Environment::GuestHost));
        assert!(cases.iter().all(|case| case.bench != "noise"));
    }
}
