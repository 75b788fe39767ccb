//! What a host has: sockets, nodes, caches, cores and memory.

mod hwloc_xml;
mod source;

use crate::number_set::NumberSet;

pub use source::Source;

/// A host. Only what may be used is in it: no offline CPU, none outside this process's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its CPU, as it calls itself; may be empty.
    pub model: String,
    /// Who made the CPU, as its CPUID has it (`AuthenticAMD`); may be empty.
    pub vendor: String,
    /// The processor architecture, as `uname -m` has it; may be empty.
    pub architecture: String,
    /// All nodes, by number.
    pub nodes: Vec<Node>,
    /// All cores, in hwloc's order: those that share something stand together.
    pub cores: Vec<Core>,
    /// How many kinds of cores there are.
    pub kinds: u32,
    /// Distances between nodes as the firmware tells them: (from, to, distance). Empty: not known.
    pub distances: Vec<(u32, u32, u32)>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number in the operating system.
    pub number: u32,
    /// The CPUs that are next to it.
    pub cpus: NumberSet,
    /// Its memory in bytes.
    pub bytes: u64,
    /// What its memory is, where it is not the usual kind: `MCDRAM`, `NVM`, `CXL` and so on.
    pub special: Option<String>,
    /// Huge pages that are reserved now: (size in bytes, count).
    pub huge_pages: Vec<(u64, u64)>,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its threads, by CPU number.
    pub cpus: Vec<u32>,
    /// Its socket, counted from 0 in hwloc's order.
    pub package: u32,
    /// Its die, counted over the whole machine. Sockets of one die have one, too.
    pub die: u32,
    /// Its last-level cache, counted over the whole machine; cores without one have their socket's
    /// number.
    pub l3: u32,
    /// The node that its memory comes from: the nearest with memory of the usual kind.
    pub node: u32,
    /// Its kind; a higher number computes faster.
    pub kind: u32,
}

impl Machine {
    /// The node of that number.
    #[must_use]
    pub fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// The distance between two nodes: the firmware's, else 10 and 20 as Linux has it.
    #[must_use]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        let known = self.distances.iter().find(|(a, b, _)| (*a, *b) == (from, to));
        known.map_or(if from == to { 10 } else { 20 }, |(_, _, distance)| *distance)
    }

    /// The nodes with memory of the usual kind that cores take theirs from.
    #[must_use]
    pub fn home_nodes(&self) -> NumberSet {
        self.cores.iter().map(|core| core.node).collect()
    }

    /// All CPUs of these cores, by their places in the list.
    #[must_use]
    pub fn cpus_of(&self, cores: &[usize]) -> NumberSet {
        cores.iter().flat_map(|core| self.cores[*core].cpus.iter().copied()).collect()
    }

    /// How many different values the cores have of something, as a count of units.
    #[must_use]
    pub fn count(&self, of: impl Fn(&Core) -> u32) -> u32 {
        let different: NumberSet = self.cores.iter().map(of).collect();
        u32::try_from(different.len()).unwrap_or(u32::MAX)
    }
}
