//! A guest's processors and nodes.

use crate::machine::{Core, Machine};
use crate::number_set::NumberSet;
use crate::request::Smt;
use crate::result::{Cell, Guest, Topology};

/// The guest that has these cores. Its memory comes later.
pub(super) fn of(
    machine: &Machine,
    number: usize,
    cores: &[usize],
    host: &[usize],
    smt: Smt,
) -> Guest {
    let cores: Vec<&Core> = cores.iter().map(|core| &machine.cores[*core]).collect();
    let of_core = |core: &Core| match smt {
        Smt::Keep => core.cpus.clone(),
        Smt::Off => core.cpus[..1].to_vec(),
    };
    let threads: Vec<Vec<u32>> = cores.iter().map(|core| of_core(core)).collect();
    let vcpus: Vec<u32> = threads.concat();
    Guest {
        name: format!("guest{}", number + 1),
        emulator: emulator(machine, &cores, host, &vcpus),
        topology: topology(&cores, &threads),
        cells: cells(machine, &cores, &vcpus),
        vcpus,
    }
}

/// CPUs of the host's share on the guest's sockets, else all of that share; where the host keeps
/// none, the guest's own.
fn emulator(machine: &Machine, cores: &[&Core], host: &[usize], vcpus: &[u32]) -> NumberSet {
    let near =
        |place: &&usize| cores.iter().any(|core| core.package == machine.cores[**place].package);
    let near: Vec<usize> = host.iter().filter(near).copied().collect();
    match (near.is_empty(), host.is_empty()) {
        (_, true) => vcpus.iter().copied().collect(),
        (true, false) => machine.cpus_of(host),
        (false, false) => machine.cpus_of(&near),
    }
}

/// As the hardware's where it is regular; else one socket, as a monitor knows only regular ones.
fn topology(cores: &[&Core], threads: &[Vec<u32>]) -> Topology {
    let vcpus = count(threads.iter().map(Vec::len).sum());
    let Some(threads) = same(threads.iter().map(Vec::len)) else {
        return Topology { sockets: 1, dies: 1, cores: vcpus, threads: 1 };
    };
    let flat = Topology { sockets: 1, dies: 1, cores: count(cores.len()), threads: count(threads) };
    let packages = parts(cores, |core| core.package);
    let dies = parts(cores, |core| core.die);
    if same(packages.iter().map(|(_, size)| *size)).is_none() {
        return flat;
    }
    let sockets = packages.len();
    // Dies of a socket, if each has as many, and as many cores.
    let regular =
        dies.len().is_multiple_of(sockets) && same(dies.iter().map(|(_, size)| *size)).is_some();
    let dies = if regular { dies.len() / sockets } else { 1 };
    Topology {
        sockets: count(sockets),
        dies: count(dies),
        cores: count(cores.len() / sockets / dies),
        threads: count(threads),
    }
}

/// How many cores share each value.
fn parts(cores: &[&Core], of: impl Fn(&Core) -> u32) -> Vec<(u32, usize)> {
    let mut parts: Vec<(u32, usize)> = Vec::new();
    for core in cores {
        match parts.iter_mut().find(|(value, _)| *value == of(core)) {
            Some((_, size)) => *size += 1,
            None => parts.push((of(core), 1)),
        }
    }
    parts
}

/// The value that all have.
fn same(mut values: impl Iterator<Item = usize>) -> Option<usize> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// A node for each of the host's that its cores take their memory from.
fn cells(machine: &Machine, cores: &[&Core], vcpus: &[u32]) -> Vec<Cell> {
    let nodes: Vec<u32> =
        parts(cores, |core| core.node).into_iter().map(|(node, _)| node).collect();
    let node_of =
        |cpu: &u32| cores.iter().find(|core| core.cpus.contains(cpu)).map(|core| core.node);
    nodes
        .iter()
        .map(|node| Cell {
            host_node: *node,
            vcpus: (0..)
                .zip(vcpus)
                .filter(|(_, cpu)| node_of(cpu) == Some(*node))
                .map(|(n, _)| n)
                .collect(),
            bytes: 0,
            distances: nodes.iter().map(|other| machine.distance(*node, *other)).collect(),
        })
        .collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
