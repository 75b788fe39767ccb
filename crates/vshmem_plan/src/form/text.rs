//! A plan for people: a picture of host, guests, cores, nodes and pools, and what to do.

use std::fmt::Write;

use super::picture::about;
use super::text_picture::picture;
use super::{bytes, nodes};
use crate::machine::Machine;
use crate::result::{Guest, Plan, Pool};

/// The whole plan.
#[must_use]
pub fn text(machine: &Machine, plan: &Plan) -> String {
    let mut text = format!("machine  {}\n\n", machine_line(machine));
    text += &picture(machine, plan);
    let kept: u64 = plan.host.memory.iter().map(|(_, bytes)| bytes).sum();
    let host = if plan.host.cpus.is_empty() { "none".into() } else { plan.host.cpus.to_string() };
    let _ = writeln!(text, "host     CPUs {host}, {}", about(kept));
    for guest in &plan.guests {
        text += &of_guest(guest);
    }
    for pool in &plan.pools {
        text += &of_pool(plan, pool);
    }
    for unused in &plan.unused {
        let _ = writeln!(text, "unused   CPUs {}: {}", unused.cpus, unused.reason);
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note     {note}");
    }
    text += "\nBefore the guests start, as root:\n";
    for step in &plan.steps {
        let _ = writeln!(text, "  # {}\n  {}", step.purpose, step.command);
    }
    text += "To undo it:\n";
    for step in plan.steps.iter().rev() {
        let _ = writeln!(text, "  {}", step.undo);
    }
    text
}

/// What the machine has.
pub(super) fn machine_line(machine: &Machine) -> String {
    let cpus: usize = machine.cores.iter().map(|core| core.cpus.len()).sum();
    format!(
        "{}, {} with CPUs, {}, {cpus} CPUs, {}{}",
        many(machine.count(|core| core.package) as usize, "socket"),
        many(machine.home_nodes().len(), "node"),
        many(machine.cores.len(), "core"),
        about(machine.nodes.iter().map(|node| node.bytes).sum()),
        if machine.model.is_empty() { String::new() } else { format!(" ({})", machine.model) }
    )
}

fn of_guest(guest: &Guest) -> String {
    let topology = guest.topology;
    let mut text = format!(
        "{:<8} CPUs {}, {}; {} vCPUs as {} x {} x {} x {} (sockets, dies, cores, threads); emulator on {}\n",
        guest.name,
        guest.cpus(),
        about(guest.bytes()),
        guest.vcpus.len(),
        topology.sockets,
        topology.dies,
        topology.cores,
        topology.threads,
        guest.emulator
    );
    for (number, cell) in guest.cells.iter().enumerate() {
        let _ = writeln!(
            text,
            "         its node {number}: vCPUs {}, {} of the host's node {}",
            cell.vcpus,
            about(cell.bytes),
            cell.host_node
        );
    }
    text
}

fn of_pool(plan: &Plan, pool: &Pool) -> String {
    let names: Vec<&str> =
        pool.guests.iter().map(|(guest, _)| plan.guests[*guest].name.as_str()).collect();
    format!(
        "{:<8} {} on {} for {}: {}\n",
        pool.name,
        bytes(pool.bytes),
        nodes(&pool.nodes),
        names.join(", "),
        pool.reason
    )
}

fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
