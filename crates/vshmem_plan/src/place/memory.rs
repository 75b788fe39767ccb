//! Whose the memory is.

use crate::error::Impossible;
use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::request::Request;
use crate::result::{Guest, Pool};

/// Guests' memory is a multiple of this at least, so that monitors back it by huge pages.
const GRANULE: u64 = 2 << 20;
/// Less does not boot.
const LEAST: u64 = 64 << 20;
/// What the host keeps without a request: this, and that for each guest's monitor.
const USUAL_HOST: u64 = 2 << 30;
const USUAL_MONITOR: u64 = 512 << 20;

/// Gives each guest's nodes their memory: of what host and pools leave of the host's node, in
/// proportion to the vCPUs there. Returns what the host keeps, by node.
pub(super) fn share_out(
    machine: &Machine,
    guests: &mut [Guest],
    pools: &[Pool],
    request: &Request,
) -> Result<Vec<(u32, u64)>, Impossible> {
    for node in &machine.nodes {
        if pools.iter().map(|pool| on_node(pool, node.number)).sum::<u64>() > node.bytes {
            return Err(no_room(node.number, node.bytes, 0, pools));
        }
    }
    let granule = request.huge_pages.map_or(GRANULE, |page| page.bytes());
    let host = host_share(machine, guests.len(), request)?;
    let mut kept = Vec::new();
    for (node, host_bytes) in host {
        let total = machine.node(node).map_or(0, |node| node.bytes);
        let pool_bytes: u64 = pools.iter().map(|pool| on_node(pool, node)).sum();
        let Some(free) = total.checked_sub(host_bytes + pool_bytes) else {
            return Err(no_room(node, total, host_bytes, pools));
        };
        let vcpus: u64 = cells_on(guests, node).map(|cell| cell.vcpus.len() as u64).sum();
        let mut given = 0;
        for cell in guests.iter_mut().flat_map(|guest| &mut guest.cells) {
            if cell.host_node == node {
                cell.bytes = share(free, cell.vcpus.len() as u64, vcpus) / granule * granule;
                given += cell.bytes;
                if cell.bytes < LEAST.max(granule) {
                    return Err(no_room(node, total, host_bytes, pools));
                }
            }
        }
        kept.push((node, total - pool_bytes - given));
    }
    Ok(kept)
}

/// What the host is to keep of each node that guests have memory of, in proportion to its size.
fn host_share(
    machine: &Machine,
    guests: usize,
    request: &Request,
) -> Result<Vec<(u32, u64)>, Impossible> {
    let home = machine.home_nodes();
    let nodes: Vec<_> = machine.nodes.iter().filter(|node| home.contains(node.number)).collect();
    let all: u64 = nodes.iter().map(|node| node.bytes).sum();
    let usual = (USUAL_HOST + guests as u64 * USUAL_MONITOR).min(all / 4);
    let wanted = request.host_memory.unwrap_or(usual);
    if wanted >= all {
        return Err(Impossible {
            wanted: format!("--host-memory {}", shown(wanted)),
            found: format!("the nodes that guests can have memory of have {} in all", shown(all)),
            nearest: String::new(),
        });
    }
    Ok(nodes.iter().map(|node| (node.number, share(wanted, node.bytes, all))).collect())
}

/// The bytes of a pool on a node.
pub(super) fn on_node(pool: &Pool, node: u32) -> u64 {
    if !pool.nodes.contains(node) {
        return 0;
    }
    pool.bytes.div_ceil(pool.nodes.len() as u64)
}

fn cells_on(guests: &[Guest], node: u32) -> impl Iterator<Item = &crate::result::Cell> {
    guests.iter().flat_map(|guest| &guest.cells).filter(move |cell| cell.host_node == node)
}

/// `whole * part / all`, which may be larger than 64 bits on the way.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(part) / u128::from(all.max(1))).unwrap_or(0)
}

/// The nearest request is found by trying ([`super::nearest`]).
fn no_room(node: u32, total: u64, host: u64, pools: &[Pool]) -> Impossible {
    let pool: u64 = pools.iter().map(|pool| on_node(pool, node)).sum();
    let largest = pools.iter().map(|pool| pool.bytes).max().unwrap_or(0);
    Impossible {
        wanted: match largest {
            0 => "memory for every guest".into(),
            bytes => format!("--pool {}", shown(bytes)),
        },
        found: format!(
            "node {node} has {}; the host keeps {} and pools take {}: too little is left",
            shown(total),
            shown(host),
            shown(pool)
        ),
        nearest: String::new(),
    }
}
