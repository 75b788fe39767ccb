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
        switched_off(
            "the kernel moves no pages of pinned guests",
            "/proc/sys/kernel/numa_balancing",
        ),
        switched_off("the kernel merges no pages of different guests", "/sys/kernel/mm/ksm/run"),
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
            "vshmem pool create {} --size {} --numa {}{}",
            pool.name,
            shown(pool.bytes),
            if pool.nodes.iter().count() > 1 { "interleave:" } else { "" },
            pool.nodes
        ),
        undo: format!("vshmem pool rm {}", pool.name),
    }));
    steps
}

/// What was there is kept in a file, so that it comes back whatever it was.
fn switched_off(purpose: &str, file: &str) -> Step {
    let kept = format!("/run/vshmem-plan{}", file.replace('/', "."));
    Step {
        purpose: purpose.into(),
        command: format!("cat {file} >{kept} && echo 0 >{file}"),
        undo: format!("cat {kept} >{file} && rm {kept}"),
    }
}
