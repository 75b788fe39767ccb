//! Bytes on memory nodes, as the command shows them.

use serde::Serialize;
use vshmem_session::BytesByNode;

use crate::size;

/// Bytes on one node.
#[derive(Debug, Serialize)]
pub struct OnNode {
    node: u32,
    bytes: u64,
}

/// Where pages lie.
#[derive(Debug, Serialize)]
pub struct NodeBytes {
    by_node: Vec<OnNode>,
    /// Only one page in so many was looked at.
    one_in: u64,
}

impl NodeBytes {
    /// What was found.
    pub fn of(found: &BytesByNode) -> Self {
        let on_node = |(node, bytes): &(u32, u64)| OnNode { node: *node, bytes: *bytes };
        Self { by_node: found.nodes.iter().map(on_node).collect(), one_in: found.one_in }
    }

    /// In words.
    pub fn text(&self) -> String {
        let on_node = |one: &OnNode| format!("node {}: {}", one.node, size::show(one.bytes));
        let list: Vec<String> = self.by_node.iter().map(on_node).collect();
        let list = if list.is_empty() { "none yet".to_owned() } else { list.join(", ") };
        match self.one_in {
            1 => list,
            many => format!("{list} (by one page in {many})"),
        }
    }

    /// The nodes alone.
    pub fn nodes(&self) -> String {
        let list: Vec<String> = self.by_node.iter().map(|one| one.node.to_string()).collect();
        list.join(",")
    }
}

/// Whether this machine has several nodes, so that there is something to tell.
pub fn has_several_nodes() -> bool {
    std::fs::read_to_string("/sys/devices/system/node/has_memory")
        .is_ok_and(|list| list.contains([',', '-']))
}
