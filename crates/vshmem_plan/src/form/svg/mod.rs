//! A plan as a drawing (SVG 1.1): a box for each socket, in it one for each node with its cores and
//! its memory; below them the guests and the pools. Letters and numbers say what the colours say,
//! so that it can be printed in grey. Dark where the reader's screen is.

mod block;
mod style;

use block::{Block, GAP, LINE, flow};
use style::{STYLE, class};

use super::nodes;
use super::picture::{NodePart, OwnedCore, Owner, Socket, about, far_nodes, mark, shares, sockets};
use super::text::machine_line;
use crate::machine::Machine;
use crate::result::{Guest, Plan, Pool};

/// Of the whole drawing.
const WIDTH: u32 = 1080;
/// Of a core, with the space beside it.
const CORE: (u32, u32) = (26, 25);
/// Cores beside each other.
const CORES_IN_ROW: usize = 8;

/// The drawing.
#[must_use]
pub fn svg(machine: &Machine, plan: &Plan) -> String {
    let mut all = Block::text("title", &machine_line(machine));
    all.below(host_line(plan));
    let sockets = sockets(machine, plan);
    all.below(flow(sockets.iter().map(|part| socket(machine, plan, part)).collect(), WIDTH));
    let far: Vec<Block> =
        far_nodes(machine).map(|node| memory_alone(machine, plan, node.number)).collect();
    if !far.is_empty() {
        all.below(flow(far, WIDTH));
    }
    all.below(Block::text("heading", "Guests"));
    let cards = plan.guests.iter().enumerate();
    all.below(flow(cards.map(|(number, of)| guest(plan, number, of)).collect(), WIDTH));
    if !plan.pools.is_empty() {
        all.below(Block::text("heading", "Pools"));
        let pools = plan.pools.iter().enumerate();
        all.below(flow(pools.map(|(number, of)| pool(plan, number, of)).collect(), WIDTH));
    }
    let (width, height) = (WIDTH.max(all.width) + 2 * GAP, all.height + 2 * GAP);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
         <g transform=\"translate({GAP} {GAP})\">\n{}</g>\n</svg>\n",
        block::escaped(&format!("A plan of {}", machine_line(machine))),
        all.content
    )
}

fn host_line(plan: &Plan) -> Block {
    let kept: u64 = plan.host.memory.iter().map(|(_, bytes)| bytes).sum();
    let cpus = match plan.host.cpus.is_empty() {
        true => "no CPU".to_owned(),
        false => format!("CPUs {}", plan.host.cpus),
    };
    Block::text("", &format!("The host keeps {cpus} (H) and {} of memory.", about(kept)))
}

fn socket(machine: &Machine, plan: &Plan, socket: &Socket) -> Block {
    let mut inside = Block::text("heading", &format!("Socket {}", socket.number));
    let nodes = socket.nodes.iter().map(|part| node(machine, plan, part)).collect();
    inside.below(flow(nodes, WIDTH - 2 * GAP));
    inside.boxed("socket")
}

fn node(machine: &Machine, plan: &Plan, part: &NodePart) -> Block {
    let bytes = machine.node(part.node).map_or(0, |node| node.bytes);
    let mut inside = Block::text("name", &format!("Node {}, {}", part.node, about(bytes)));
    let many = part.caches.len() > 1;
    let caches = part.caches.iter().map(|cores| match many {
        true => grid(plan, cores).boxed("cache"),
        false => grid(plan, cores),
    });
    inside.below(flow(caches.collect(), WIDTH / 2 - 4 * GAP));
    if part.seen {
        inside.below(Block::text("", "memory: see the first box of this node"));
    } else {
        inside.below(memory(machine, plan, part.node, inside.width));
    }
    inside.boxed("node")
}

/// A node that no core has its memory from.
fn memory_alone(machine: &Machine, plan: &Plan, number: u32) -> Block {
    let node = machine.node(number);
    let bytes = node.map_or(0, |node| node.bytes);
    let kind = node.and_then(|node| node.special.as_deref()).unwrap_or("no CPU of its own");
    let mut inside = Block::text("name", &format!("Node {number}, {}: {kind}", about(bytes)));
    inside.below(memory(machine, plan, number, inside.width));
    inside.boxed("node")
}

/// Cores of one cache.
fn grid(plan: &Plan, cores: &[OwnedCore]) -> Block {
    let columns = cores.len().min(CORES_IN_ROW);
    let rows = cores.len().div_ceil(CORES_IN_ROW);
    let mut grid = Block::empty(small(columns) * CORE.0, small(rows) * CORE.1);
    for (place, one) in cores.iter().enumerate() {
        let x = small(place % CORES_IN_ROW) * CORE.0;
        let y = small(place / CORES_IN_ROW) * CORE.1;
        grid.content += &core(plan, one, x, y);
    }
    grid
}

/// A core: whose it is, and below that a part for each thread where it has several.
fn core(plan: &Plan, core: &OwnedCore, x: u32, y: u32) -> String {
    let owner = match core.owner {
        Owner::Host => "the host".to_owned(),
        Owner::Guest(number) => plan.guests[number].name.clone(),
        Owner::Pool(_) | Owner::Unused => "unused".to_owned(),
    };
    let (width, height) = (CORE.0 - 4, CORE.1 - 4);
    let threads = small(core.cpus.len()).max(1);
    let cpus: Vec<String> = core.cpus.iter().map(u32::to_string).collect();
    let whole = if core.idle == core.cpus.len() { Owner::Unused } else { core.owner };
    let mut text = format!(
        "<g><title>CPUs {}: {owner}</title><rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\
         <text class=\"mark\" x=\"{}\" y=\"{}\">{}</text>",
        cpus.join(", "),
        class(whole),
        x + width / 2,
        y + 12,
        mark(core.owner)
    );
    for thread in (0..threads).filter(|_| threads > 1) {
        let is_idle = core.cpus.len() - (thread as usize) <= core.idle;
        let of = if is_idle { Owner::Unused } else { core.owner };
        let (left, right) = (width * thread / threads, width * (thread + 1) / threads);
        text += &format!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"5\"/>",
            class(of),
            x + left,
            y + height - 5,
            right - left
        );
    }
    text + "</g>\n"
}

/// A bar of a node's memory, and a line for each part.
fn memory(machine: &Machine, plan: &Plan, node: u32, width: u32) -> Block {
    const HEIGHT: u32 = 12;
    let shares = shares(machine, plan, node);
    let total: u64 = shares.iter().map(|(.., bytes)| bytes).sum();
    let mut bar = Block::empty(width, HEIGHT);
    let mut before: u64 = 0;
    for (owner, _, bytes) in &shares {
        let at = |bytes: u64| u64::from(width) * (bytes >> 20) / (total >> 20).max(1);
        let (left, right) = (at(before), at(before + bytes));
        before += bytes;
        bar.content += &format!(
            "<rect class=\"{}\" x=\"{left}\" width=\"{}\" height=\"{HEIGHT}\"/>",
            class(*owner),
            (right - left).max(2).min(u64::from(width) - left.min(u64::from(width)))
        );
    }
    bar.content += "\n";
    for (owner, name, bytes) in &shares {
        let mut line = Block::empty(0, LINE);
        line.content =
            format!("<rect class=\"{}\" y=\"3\" width=\"11\" height=\"11\"/>", class(*owner));
        line.beside(Block::text("", &format!("{name} {}", about(*bytes))), 16);
        bar.below_close(line);
    }
    bar
}

fn guest(plan: &Plan, number: usize, guest: &Guest) -> Block {
    let topology = guest.topology;
    let mark = mark(Owner::Guest(number));
    let mut card = Block::text("name", &format!("{mark}  {}", guest.name));
    let mut lines = vec![
        format!("{} vCPUs on CPUs {}", guest.vcpus.len(), guest.cpus()),
        format!(
            "sockets {}, dies {}, cores {}, threads {}",
            topology.sockets, topology.dies, topology.cores, topology.threads
        ),
        format!("emulator threads on CPUs {}", guest.emulator),
    ];
    for (cell, node) in guest.cells.iter().enumerate() {
        let from = format!("{} of host node {}", about(node.bytes), node.host_node);
        lines.push(format!("its node {cell}: vCPUs {}, {from}", node.vcpus));
    }
    lines.extend(
        plan.pools_of(number).map(|(pool, cell)| format!("{} on its node {cell}", pool.name)),
    );
    for line in lines {
        card.below_close(Block::paragraph(&line, 360));
    }
    card.boxed(class(Owner::Guest(number)))
}

fn pool(plan: &Plan, number: usize, pool: &Pool) -> Block {
    let names: Vec<&str> =
        pool.guests.iter().map(|(guest, _)| plan.guests[*guest].name.as_str()).collect();
    let size = super::bytes(pool.bytes);
    let mut card = Block::text("name", &format!("{}, {size} on {}", pool.name, nodes(&pool.nodes)));
    card.below_close(Block::paragraph(&format!("for {}", names.join(", ")), 520));
    card.below_close(Block::paragraph(&pool.reason, 520));
    card.boxed(class(Owner::Pool(number)))
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX / 64)
}
