//! What both pictures of a plan show: the sockets, in each its nodes, in each its caches and cores
//! with their owners, and whose the memory of each node is.

use crate::machine::{Core, Machine, Node};
use crate::result::Plan;

/// Whose a core, or a part of a node's memory, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The host itself.
    Host,
    /// The guest of that number from 0.
    Guest(usize),
    /// The pool of that number from 0.
    Pool(usize),
    /// In no use.
    Unused,
}

/// A socket.
pub(super) struct Socket {
    /// Its number from 0, in hwloc's order.
    pub number: u32,
    /// Its cores, by the node that their memory comes from.
    pub nodes: Vec<NodePart>,
}

/// The cores of one socket that have their memory from one node.
pub(super) struct NodePart {
    /// The node's number.
    pub node: u32,
    /// Whether another socket before this one has cores of the same node.
    pub seen: bool,
    /// The cores, by the last-level cache that they share.
    pub caches: Vec<Vec<OwnedCore>>,
}

/// A core.
pub(super) struct OwnedCore {
    /// Its threads, by CPU number.
    pub cpus: Vec<u32>,
    /// Whose it is.
    pub owner: Owner,
    /// How many of its threads stay idle: always the last.
    pub idle: usize,
}

/// The sockets of the machine.
pub(super) fn sockets(machine: &Machine, plan: &Plan) -> Vec<Socket> {
    let mut sockets: Vec<Socket> = Vec::new();
    // Cores that share something stand together.
    let mut before = None;
    for core in &machine.cores {
        let seen = |sockets: &[Socket]| {
            let others = sockets.iter().filter(|socket| socket.number != core.package);
            others.flat_map(|socket| &socket.nodes).any(|part| part.node == core.node)
        };
        let seen = seen(&sockets);
        let socket = find_or_add(
            &mut sockets,
            |socket| socket.number == core.package,
            || Socket { number: core.package, nodes: Vec::new() },
        );
        let part = find_or_add(
            &mut socket.nodes,
            |part| part.node == core.node,
            || NodePart { node: core.node, seen, caches: Vec::new() },
        );
        let place = (core.package, core.node, core.l3);
        match part.caches.last_mut() {
            Some(cache) if before == Some(place) => cache.push(owned(plan, core)),
            _ => part.caches.push(vec![owned(plan, core)]),
        }
        before = Some(place);
    }
    sockets
}

/// The element of which that is true; the new one at the end, where there is none.
fn find_or_add<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl Fn() -> T) -> &mut T {
    let place = list.iter().position(is_it).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[place]
}

fn owned(plan: &Plan, core: &Core) -> OwnedCore {
    let guest = plan.guests.iter().position(|guest| guest.vcpus.contains(&core.cpus[0]));
    let owner = match guest {
        Some(guest) => Owner::Guest(guest),
        None if plan.host.cpus.contains(core.cpus[0]) => Owner::Host,
        None => Owner::Unused,
    };
    let is_idle = |cpu: &&u32| plan.unused.iter().any(|unused| unused.cpus.contains(**cpu));
    OwnedCore { cpus: core.cpus.clone(), owner, idle: core.cpus.iter().filter(is_idle).count() }
}

/// Nodes that no core has its memory from.
pub(super) fn far_nodes(machine: &Machine) -> impl Iterator<Item = &Node> {
    let home = machine.home_nodes();
    machine.nodes.iter().filter(move |node| node.bytes > 0 && !home.contains(node.number))
}

/// Whose the node's memory is, with the name and the bytes: guests, then pools, then the host, then
/// what is left over.
pub(super) fn shares(machine: &Machine, plan: &Plan, node: u32) -> Vec<(Owner, String, u64)> {
    let mut shares = Vec::new();
    for (number, guest) in plan.guests.iter().enumerate() {
        let cells = guest.cells.iter().filter(|cell| cell.host_node == node);
        shares.push((Owner::Guest(number), guest.name.clone(), cells.map(|cell| cell.bytes).sum()));
    }
    for (number, pool) in plan.pools.iter().enumerate() {
        let here = pool.nodes.contains(node);
        let bytes = if here { pool.bytes.div_ceil(pool.nodes.len() as u64) } else { 0 };
        shares.push((Owner::Pool(number), pool.name.clone(), bytes));
    }
    let kept = plan.host.memory.iter().filter(|(of, _)| *of == node);
    shares.push((Owner::Host, "host".into(), kept.map(|(_, bytes)| bytes).sum()));
    let given: u64 = shares.iter().map(|(.., bytes)| bytes).sum();
    let all = machine.node(node).map_or(0, |node| node.bytes);
    shares.push((Owner::Unused, "unused".into(), all.saturating_sub(given)));
    shares.retain(|(.., bytes)| *bytes > 0);
    shares
}

/// What is written into a core: `H` for the host, a guest's number, letters from the tenth on, `.`
/// for what is unused.
pub(super) fn mark(owner: Owner) -> char {
    const GUESTS: &[u8] = b"123456789abcdefghijklmnopqrstuvwxyz";
    match owner {
        Owner::Host => 'H',
        Owner::Guest(number) => GUESTS.get(number).map_or('*', |mark| char::from(*mark)),
        Owner::Pool(_) => '=',
        Owner::Unused => '.',
    }
}

/// A size to read, not to type.
pub(super) fn about(bytes: u64) -> String {
    let gigabytes = bytes as f64 / f64::from(1 << 30);
    if gigabytes >= 1.0 { format!("{gigabytes:.1} GiB") } else { format!("{} MiB", bytes >> 20) }
}
