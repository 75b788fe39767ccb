//! Where pools lie. The nearest request that can be met is found by trying ([`super::nearest`]).

use crate::error::Impossible;
use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::number_set::NumberSet;
use crate::request::{PoolPlacement, PoolRequest};
use crate::result::{Guest, Pool};

/// The pools of these guests.
pub(super) fn place(
    machine: &Machine,
    guests: &[Guest],
    request: Option<PoolRequest>,
) -> Result<Vec<Pool>, Impossible> {
    let Some(PoolRequest { bytes, placement }) = request else { return Ok(Vec::new()) };
    if !bytes.is_power_of_two() || bytes < 1 << 20 {
        return Err(Impossible {
            wanted: format!("--pool {}", shown(bytes)),
            found: "a PCI device shows a power of two, and a pool has 1 MiB at least".into(),
            nearest: String::new(),
        });
    }
    let all: Vec<usize> = (0..guests.len()).collect();
    let one = |nodes: NumberSet, reason: String| {
        vec![pool(machine, guests, 1, bytes, &all, nodes, reason)]
    };
    let homes = homes(guests, &all);
    match placement {
        PoolPlacement::ByRule | PoolPlacement::Interleave | PoolPlacement::Ranges
            if homes.len() == 1 =>
        {
            Ok(one(homes.clone(), format!("all its guests are on node {homes}")))
        }
        PoolPlacement::Ranges => {
            let mut pools = one(homes.clone(), a_range_each(&homes));
            pools[0].ranges = true;
            Ok(pools)
        }
        PoolPlacement::ByRule | PoolPlacement::Interleave => {
            Ok(one(homes.clone(), in_turn(&homes)))
        }
        PoolPlacement::Node(number) => {
            let has_memory = machine.node(number).is_some_and(|node| node.bytes > 0);
            if !has_memory {
                return Err(no_such_node(machine, number));
            }
            Ok(one([number].into_iter().collect(), format!("--pool-numa {number}")))
        }
        PoolPlacement::PerPair => {
            if !guests.len().is_multiple_of(2) {
                return Err(odd(guests.len()));
            }
            let pairs = all.chunks(2).zip(1..);
            Ok(pairs
                .map(|(pair, number)| {
                    let nodes = self::homes(guests, pair);
                    let reason = format!("a pair of its own; {}", in_turn(&nodes));
                    pool(machine, guests, number, bytes, pair, nodes, reason)
                })
                .collect())
        }
    }
}

/// The host's nodes of these guests.
fn homes(guests: &[Guest], which: &[usize]) -> NumberSet {
    let cells = which.iter().flat_map(|guest| &guests[*guest].cells);
    cells.map(|cell| cell.host_node).collect()
}

fn in_turn(nodes: &NumberSet) -> String {
    if nodes.len() == 1 {
        return format!("its guests are on node {nodes}");
    }
    format!(
        "its guests are on nodes {nodes}: pages on each in turn are as far from one as from another"
    )
}

fn a_range_each(nodes: &NumberSet) -> String {
    format!(
        "its guests are on nodes {nodes}: a range on each, and a new segment lies in that of its maker's node"
    )
}

fn pool(
    machine: &Machine,
    guests: &[Guest],
    number: u32,
    bytes: u64,
    which: &[usize],
    nodes: NumberSet,
    reason: String,
) -> Pool {
    let device = |guest: &usize| (*guest, device_cell(machine, &guests[*guest], &nodes));
    let guests = which.iter().map(device).collect();
    Pool { name: format!("job{number}"), bytes, guests, reason, nodes, ranges: false }
}

/// The guest's node that is nearest to the pool's pages.
fn device_cell(machine: &Machine, guest: &Guest, nodes: &NumberSet) -> u32 {
    let far = |host_node: u32| -> u64 {
        nodes.iter().map(|node| u64::from(machine.distance(host_node, node))).sum()
    };
    let cells = (0..).zip(&guest.cells);
    cells.min_by_key(|(_, cell)| far(cell.host_node)).map_or(0, |(number, _)| number)
}

fn no_such_node(machine: &Machine, number: u32) -> Impossible {
    let with_memory = machine.nodes.iter().filter(|node| node.bytes > 0);
    let known: NumberSet = with_memory.map(|node| node.number).collect();
    Impossible {
        wanted: format!("--pool-numa {number}"),
        found: format!("there is no such node with memory, only {known}"),
        nearest: String::new(),
    }
}

fn odd(guests: usize) -> Impossible {
    Impossible {
        wanted: "--pool-numa per-pair".into(),
        found: format!("the plan has an odd number of guests, {guests}"),
        nearest: String::new(),
    }
}
