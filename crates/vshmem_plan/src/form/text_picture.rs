//! The picture of a plan in characters: a box with a part for each socket, a letter for each core.

use super::picture::{NodePart, Owner, about, far_nodes, mark, shares, sockets};
use crate::machine::Machine;
use crate::result::Plan;

/// Cores in a line, before it is broken.
const CORES_IN_LINE: usize = 64;

/// The picture, with the key to its letters.
pub(super) fn picture(machine: &Machine, plan: &Plan) -> String {
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for socket in sockets(machine, plan) {
        let mut lines = Vec::new();
        for part in &socket.nodes {
            lines.extend(of_node(machine, plan, part));
        }
        parts.push((format!("socket {}", socket.number), lines));
    }
    let far: Vec<String> = far_nodes(machine)
        .map(|node| {
            let kind = node.special.as_deref().unwrap_or("no CPU of its own");
            let memory = of_memory(machine, plan, node.number);
            format!("node {:<3} {kind}, {memory}", node.number)
        })
        .collect();
    if !far.is_empty() {
        parts.push(("nodes without CPUs, and of other memory".into(), far));
    }
    boxed(&parts) + &key(plan)
}

/// A node's cores, those of each last-level cache together, and its memory.
fn of_node(machine: &Machine, plan: &Plan, part: &NodePart) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut in_line = 0;
    for cache in &part.caches {
        if in_line > 0 {
            push(&mut lines, ' ');
        }
        for core in cache {
            if in_line == CORES_IN_LINE {
                lines.push(String::new());
                in_line = 0;
            }
            push(&mut lines, mark(core.owner));
            in_line += 1;
        }
    }
    let first = format!("node {:<3} ", part.node);
    let indent = " ".repeat(first.len());
    let mut text: Vec<String> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let before = if number == 0 { &first } else { &indent };
        text.push(format!("{before}{line}"));
    }
    if part.seen {
        text.push(format!("{indent}the same node as above"));
    } else {
        text.push(format!("{indent}{}", of_memory(machine, plan, part.node)));
    }
    text
}

fn push(lines: &mut [String], mark: char) {
    if let Some(line) = lines.last_mut() {
        line.push(mark);
    }
}

fn of_memory(machine: &Machine, plan: &Plan, node: u32) -> String {
    let bytes = machine.node(node).map_or(0, |node| node.bytes);
    let parts: Vec<String> = shares(machine, plan, node)
        .into_iter()
        .map(|(_, name, bytes)| format!("{name} {}", about(bytes)))
        .collect();
    format!("{}: {}", about(bytes), parts.join(", "))
}

fn boxed(parts: &[(String, Vec<String>)]) -> String {
    let lines = parts.iter().flat_map(|(_, lines)| lines);
    let widest = lines.chain(parts.iter().map(|(title, _)| title)).map(|line| line.chars().count());
    let width = widest.max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (number, (title, lines)) in parts.iter().enumerate() {
        let (left, right) = if number == 0 { ('┌', '┐') } else { ('├', '┤') };
        let rest = "─".repeat(width.saturating_sub(title.chars().count() + 3));
        text += &format!("{left}─ {title} {rest}{right}\n");
        for line in lines {
            text += &format!("│ {line:<rest$} │\n", rest = width - 2);
        }
    }
    text + &format!("└{}┘\n", "─".repeat(width))
}

/// Each character is a core: whose?
fn key(plan: &Plan) -> String {
    let mut key = vec![format!("{} the host", mark(Owner::Host))];
    let guests = plan.guests.iter().enumerate();
    key.extend(
        guests.map(|(number, guest)| format!("{} {}", mark(Owner::Guest(number)), guest.name)),
    );
    let mut text = format!("Each character is a core: {}.", key.join(", "));
    if !plan.unused.is_empty() {
        text += " See \"unused\" for threads that stay idle.";
    }
    text + "\n\n"
}
