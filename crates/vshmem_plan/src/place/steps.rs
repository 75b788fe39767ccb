//! What to do on the host before the guests start.

use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::request::Request;
use crate::result::{Guest, Pool, Step};

/// In the order in which it is done.
pub(super) fn of(
    machine: &Machine,
    guests: &[Guest],
    pools: &[Pool],
    request: &Request,
) -> Vec<Step> {
    let mut steps = vec![
        Step {
            purpose: "the kernel moves no pages of pinned guests".into(),
            command: "sysctl -w kernel.numa_balancing=0".into(),
            undo: "sysctl -w kernel.numa_balancing=1".into(),
        },
        Step {
            purpose: "the kernel merges no pages of different guests".into(),
            command: "echo 0 >/sys/kernel/mm/ksm/run".into(),
            undo: "echo 1 >/sys/kernel/mm/ksm/run".into(),
        },
    ];
    if let Some(page) = request.huge_pages {
        let kilobytes = page.bytes() >> 10;
        for node in machine.home_nodes().iter() {
            let cells = guests.iter().flat_map(|guest| &guest.cells);
            let bytes: u64 =
                cells.filter(|cell| cell.host_node == node).map(|cell| cell.bytes).sum();
            let reserved = machine.node(node).and_then(|node| {
                node.huge_pages.iter().find(|(size, _)| *size == page.bytes()).map(|(_, n)| *n)
            });
            let file = format!(
                "/sys/devices/system/node/node{node}/hugepages/hugepages-{kilobytes}kB/nr_hugepages"
            );
            steps.push(Step {
                purpose: format!("huge pages of {} on node {node}", shown(page.bytes())),
                command: format!("echo {} >{file}", bytes / page.bytes()),
                undo: format!("echo {} >{file}", reserved.unwrap_or(0)),
            });
        }
    }
    steps.extend(pools.iter().map(|pool| Step {
        purpose: format!("pool {} on nodes {}", pool.name, pool.nodes),
        command: format!(
            "vshmem pool create {} --size {} --numa {}",
            pool.name,
            shown(pool.bytes),
            pool.nodes
        ),
        undo: format!("vshmem pool rm {}", pool.name),
    }));
    steps
}
