//! What was decided.

use serde::{Deserialize, Serialize};

use crate::number_set::NumberSet;

/// A host, cut into guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the host itself keeps.
    pub host: HostShare,
    /// The guests, in the order of their CPUs.
    pub guests: Vec<Guest>,
    /// The pools that they share.
    pub pools: Vec<Pool>,
    /// What is left idle, and why.
    pub unused: Vec<Unused>,
    /// The size of the pages that back guests and pools, in bytes.
    pub page_bytes: u64,
    /// Whether a monitor has to name the CPU feature `topoext`: a guest sees the threads of AMD's
    /// cores only with it.
    pub topoext: bool,
    /// What to know about this plan.
    pub notes: Vec<String>,
    /// What to do on the host before the guests start, in this order.
    pub steps: Vec<Step>,
}

/// What the host keeps: for itself, and for the threads of the monitors that are no vCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// Its CPUs.
    pub cpus: NumberSet,
    /// Its memory, as (node, bytes).
    pub memory: Vec<(u32, u64)>,
}

/// A guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// `guest1` and on.
    pub name: String,
    /// The host's CPU of each vCPU.
    pub vcpus: Vec<u32>,
    /// Where the emulator's and the I/O threads run: CPUs of the host's share.
    pub emulator: NumberSet,
    /// The processors that it sees.
    pub topology: Topology,
    /// Its nodes.
    pub cells: Vec<Cell>,
}

/// Sockets, dies of each, cores of each, threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Sockets.
    pub sockets: u32,
    /// Dies of a socket.
    pub dies: u32,
    /// Cores of a die.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
}

/// A guest's node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The host's node that its memory comes from.
    pub host_node: u32,
    /// Its vCPUs.
    pub vcpus: NumberSet,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Its distance from each node of the guest, as the hardware has it (10: itself).
    pub distances: Vec<u32>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// `job1` and on.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The host's nodes that its pages lie on, in turn if there are several.
    pub nodes: NumberSet,
    /// A range of its pages on each of these nodes instead.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ranges: bool,
    /// For each guest that has it: the guest's number from 0, and the node of that guest that the
    /// device is shown on.
    pub guests: Vec<(usize, u32)>,
    /// Why it lies there.
    pub reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// CPUs that stay idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unused {
    /// Which.
    pub cpus: NumberSet,
    /// Why.
    pub reason: String,
}

/// Something to do on the host, and how to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What for.
    pub purpose: String,
    /// A command for a shell of root.
    pub command: String,
    /// The command that undoes it.
    pub undo: String,
}

impl Plan {
    /// The pools of the guest with this number from 0, and the node of the guest that shows each
    /// device.
    pub(crate) fn pools_of(&self, guest: usize) -> impl Iterator<Item = (&Pool, u32)> {
        self.pools.iter().filter_map(move |pool| {
            let (_, cell) = pool.guests.iter().find(|(of, _)| *of == guest)?;
            Some((pool, *cell))
        })
    }
}

impl Plan {
    /// The host's nodes that guests have memory of.
    #[must_use]
    pub fn home_nodes(&self) -> NumberSet {
        self.guests.iter().flat_map(|guest| guest.nodes().iter().collect::<Vec<_>>()).collect()
    }

    /// What the monitor of the guest with this number from 0 tells it about where it lies, if that
    /// matters to its pools: the host's node for each of its own. In a guest with systemd
    /// `vshmem-node.service` notes it for programs; as a credential of the system, it comes from
    /// nobody but the host.
    pub(crate) fn node_credential(&self, guest: usize) -> Option<String> {
        if self.home_nodes().len() < 2 || self.pools_of(guest).next().is_none() {
            return None;
        }
        let cells = self.guests[guest].cells.iter().map(|cell| cell.host_node.to_string());
        let nodes = cells.collect::<Vec<_>>().join(",");
        Some(format!("io.systemd.credential:vshmem.node={nodes}"))
    }

    /// The host's CPUs of all guests' vCPUs.
    #[must_use]
    pub fn guest_cpus(&self) -> NumberSet {
        self.guests.iter().flat_map(|guest| guest.vcpus.iter().copied()).collect()
    }
}

impl Pool {
    /// What follows `--numa` when it is made. A list of nodes alone gives each of them a range of
    /// the pool.
    #[must_use]
    pub fn numa_option(&self) -> String {
        let in_turn = self.nodes.len() > 1 && !self.ranges;
        let prefix = if in_turn { "interleave:" } else { "" };
        format!("{prefix}{}", self.nodes)
    }
}

impl Guest {
    /// The host's nodes that its memory comes from.
    #[must_use]
    pub fn nodes(&self) -> NumberSet {
        self.cells.iter().map(|cell| cell.host_node).collect()
    }

    /// Its memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.bytes).sum()
    }

    /// The host's CPUs of its vCPUs.
    #[must_use]
    pub fn cpus(&self) -> NumberSet {
        self.vcpus.iter().copied().collect()
    }
}
