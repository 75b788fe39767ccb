//! What the host keeps.

use crate::error::Impossible;
use crate::machine::Machine;
use crate::request::Request;

/// The cores that the host keeps: of each socket in turn, the slowest kind first, then those in
/// front, where the firmware sends most interrupts.
pub(super) fn reserve(machine: &Machine, request: &Request) -> Result<Vec<usize>, Impossible> {
    let order = order(machine);
    let wanted = match request.host_cpus {
        None => return Ok(order.into_iter().take(usual(machine)).collect()),
        Some(wanted) => wanted as usize,
    };
    let all: usize = machine.cores.iter().map(|core| core.cpus.len()).sum();
    let mut reserved = Vec::new();
    let mut cpus = 0;
    for core in order {
        if cpus >= wanted {
            break;
        }
        cpus += machine.cores[core].cpus.len();
        reserved.push(core);
    }
    if cpus >= all || cpus < wanted {
        let last = machine.cores.iter().map(|core| core.cpus.len()).min().unwrap_or(0);
        return Err(Impossible {
            wanted: format!("--host-cpus {wanted}"),
            found: format!("the machine has {all} CPUs, and the guests need some of them"),
            nearest: format!(
                "At most --host-cpus {} leaves a core to a guest",
                all - last.min(all)
            ),
        });
    }
    Ok(reserved)
}

/// A core of each socket if each has two; else one, if there are two at all.
fn usual(machine: &Machine) -> usize {
    let packages = machine.count(|core| core.package);
    let cores_of = |package| machine.cores.iter().filter(|core| core.package == package).count();
    let rich = machine.cores.iter().all(|core| cores_of(core.package) >= 2);
    if rich { packages as usize } else { usize::from(machine.cores.len() > 1) }
}

/// All cores, in the order in which the host takes them.
fn order(machine: &Machine) -> Vec<usize> {
    let mut ranked: Vec<(usize, u32, u32, usize)> = Vec::new();
    for (place, core) in machine.cores.iter().enumerate() {
        let earlier = |other: &&(usize, &crate::machine::Core)| {
            other.1.package == core.package && (other.1.kind, other.0) < (core.kind, place)
        };
        let rank = machine.cores.iter().enumerate().filter(|other| earlier(&other)).count();
        ranked.push((rank, core.kind, core.package, place));
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(.., place)| place).collect()
}
