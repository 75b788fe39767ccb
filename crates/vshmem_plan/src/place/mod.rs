//! The decision: first what the host keeps, then whose the cores are, then the memory.

mod cut;
mod guest;
mod host;
mod memory;
mod nearest;
mod pool;
mod steps;

use crate::error::Impossible;
use crate::machine::Machine;
use crate::number_set::NumberSet;
use crate::request::{Request, Smt};
use crate::result::{HostShare, Plan, Unused};

/// The smallest page of the hosts that this is for.
const USUAL_PAGE: u64 = 4096;

/// Cuts the machine as the request has it.
///
/// # Errors
/// [`Impossible`] names what stands against the request, and the nearest one that can be met.
pub fn plan(machine: &Machine, request: &Request) -> Result<Plan, Impossible> {
    decide(machine, request).map_err(|mut impossible| {
        if impossible.nearest.is_empty() {
            let can_be_met = |request: &Request| decide(machine, request).is_ok();
            impossible.nearest = nearest::of(machine, request, can_be_met);
        }
        impossible
    })
}

/// The same, but an error may lack the nearest request.
fn decide(machine: &Machine, request: &Request) -> Result<Plan, Impossible> {
    let reserved = host::reserve(machine, request)?;
    let free: Vec<usize> =
        (0..machine.cores.len()).filter(|core| !reserved.contains(core)).collect();
    let cut = cut::cut(machine, &free, request.cut)?;
    let host_cores: Vec<usize> = reserved.iter().chain(&cut.left_over).copied().collect();
    let host_cpus = machine.cpus_of(&host_cores);
    let mut guests: Vec<_> = cut
        .guests
        .iter()
        .enumerate()
        .map(|(number, cores)| guest::of(machine, number, cores, &host_cores, request.smt))
        .collect();
    let pools = pool::place(machine, &guests, request.pool)?;
    let host_memory = memory::share_out(machine, &mut guests, &pools, request)?;
    let mut notes = notes(machine, &guests, &host_cpus, request);
    notes.extend(cut.notes);
    let page_bytes = request.huge_pages.map_or(USUAL_PAGE, |page| page.bytes());
    Ok(Plan {
        steps: steps::of(machine, &guests, &pools, request),
        host: HostShare { cpus: host_cpus, memory: host_memory },
        unused: unused(machine, request.smt, &cut.guests),
        guests,
        pools,
        page_bytes,
        topoext: machine.vendor == "AuthenticAMD",
        notes,
    })
}

/// The threads that stay idle.
fn unused(machine: &Machine, smt: Smt, guests: &[Vec<usize>]) -> Vec<Unused> {
    if smt == Smt::Keep {
        return Vec::new();
    }
    let cores = guests.iter().flatten().map(|core| &machine.cores[*core]);
    let cpus: NumberSet = cores.flat_map(|core| core.cpus.iter().skip(1).copied()).collect();
    if cpus.is_empty() {
        return Vec::new();
    }
    vec![Unused { cpus, reason: "further threads of the guests' cores (--smt off)".into() }]
}

/// What to know about nodes, kinds of cores and the processor.
fn notes(
    machine: &Machine,
    guests: &[crate::result::Guest],
    host: &NumberSet,
    request: &Request,
) -> Vec<String> {
    let mut notes = Vec::new();
    let home = machine.home_nodes();
    for node in machine.nodes.iter().filter(|node| node.bytes > 0 && !home.contains(node.number)) {
        let what = node.special.as_deref().unwrap_or("no CPU of its own");
        notes.push(format!(
            "node {}: {what}: its {} belong to no guest",
            node.number,
            crate::form::bytes(node.bytes)
        ));
    }
    for node in machine.nodes.iter().filter(|node| node.bytes == 0 && !node.cpus.is_empty()) {
        notes.push(format!(
            "node {}: it has no memory; its CPUs {} have that of the nearest node",
            node.number, node.cpus
        ));
    }
    if host.is_empty() {
        notes.push("the host keeps no CPU: emulator threads run on their guest's own".into());
    }
    for guest in guests.iter().filter(|_| machine.kinds > 1) {
        let cores = machine
            .cores
            .iter()
            .filter(|core| core.cpus.first().is_some_and(|first| guest.vcpus.contains(first)));
        let kinds: NumberSet = cores.map(|core| core.kind).collect();
        if kinds.len() > 1 {
            notes.push(format!(
                "{}: its cores are of {} kinds, and a guest cannot see which vCPU is which",
                guest.name,
                kinds.len()
            ));
        }
    }
    if !matches!(machine.architecture.as_str(), "" | "x86_64") {
        notes.push(format!(
            "this machine is {}: what is written for libvirt and QEMU is for x86_64 (q35) and has to be changed",
            machine.architecture
        ));
    }
    if request.huge_pages.is_some() && request.pool.is_some() {
        notes
            .push("the pool lies in pages of the usual size; --hugepages is for the guests".into());
    }
    notes
}
