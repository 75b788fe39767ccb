//! The nearest request that a machine can meet, found by trying: requests that ask for less, one
//! thing at a time, then those that leave something out.

use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::request::{Cut, HugePage, PoolPlacement, PoolRequest, Request};

/// The least pool, and the least memory of the host, that is tried.
const LEAST: u64 = 1 << 20;

/// A sentence with the first of them that can be met.
pub(super) fn of(
    machine: &Machine,
    request: &Request,
    can_be_met: impl Fn(&Request) -> bool,
) -> String {
    let mut less = smaller_pages(request);
    less.extend(other_placements(machine, request));
    less.extend(smaller_pools(request));
    less.extend(less_for_host(request));
    less.extend(fewer_guests(machine, request));
    less.extend(without(request));
    match less.iter().find(|(_, request)| can_be_met(request)) {
        Some((words, _)) => format!("The nearest that can be done: {words}"),
        None if can_be_met(&Request::default()) => {
            "No request that asks for less in one thing can be met; `vshmem plan` without options \
             shows what fits"
                .into()
        }
        None => "No request that asks for less in one thing can be met, nor one without options: \
                 `vshmem plan --guests 1` asks for the least"
            .into(),
    }
}

fn other_placements(machine: &Machine, request: &Request) -> Vec<(String, Request)> {
    let Some(pool) = request.pool else { return Vec::new() };
    let with = |words: String, placement| {
        let pool = Some(PoolRequest { placement, ..pool });
        (format!("--pool-numa {words}"), Request { pool, ..*request })
    };
    match pool.placement {
        PoolPlacement::ByRule | PoolPlacement::Interleave | PoolPlacement::Ranges => Vec::new(),
        PoolPlacement::PerPair => vec![with("interleave".into(), PoolPlacement::Interleave)],
        PoolPlacement::Node(wanted) => {
            let mut nodes: Vec<u32> = machine.nodes.iter().map(|node| node.number).collect();
            nodes.retain(|node| *node != wanted);
            nodes.sort_by_key(|node| node.abs_diff(wanted));
            nodes.iter().map(|node| with(node.to_string(), PoolPlacement::Node(*node))).collect()
        }
    }
}

/// From the next power of two: a pool of another size is refused.
fn smaller_pools(request: &Request) -> Vec<(String, Request)> {
    let Some(pool) = request.pool else { return Vec::new() };
    let mut less = Vec::new();
    let mut bytes = pool.bytes.max(LEAST).checked_next_power_of_two().unwrap_or(1 << 63);
    while bytes >= LEAST {
        if bytes != pool.bytes {
            let pool = Some(PoolRequest { bytes, ..pool });
            less.push((format!("--pool {}", shown(bytes)), Request { pool, ..*request }));
        }
        bytes /= 2;
    }
    less
}

fn smaller_pages(request: &Request) -> Vec<(String, Request)> {
    if request.huge_pages != Some(HugePage::Giga1) {
        return Vec::new();
    }
    let huge_pages = Some(HugePage::Mega2);
    vec![("--hugepages 2M".into(), Request { huge_pages, ..*request })]
}

fn less_for_host(request: &Request) -> Vec<(String, Request)> {
    let Some(bytes) = request.host_memory else { return Vec::new() };
    let less = (1..u64::BITS).map(|halvings| bytes >> halvings).take_while(|less| *less >= LEAST);
    less.map(|bytes| bytes >> 20 << 20)
        .map(|bytes| {
            let host_memory = Some(bytes);
            (format!("--host-memory {}", shown(bytes)), Request { host_memory, ..*request })
        })
        .collect()
}

/// From one less than the request has.
fn fewer_guests(machine: &Machine, request: &Request) -> Vec<(String, Request)> {
    let most = match request.cut {
        Cut::Count(count) => count,
        Cut::PerSocket => machine.count(|core| core.package),
        Cut::PerNode => machine.count(|core| core.node),
        Cut::PerL3 => machine.count(|core| core.l3),
    };
    let fewer = (1..most)
        .rev()
        .map(|count| (format!("--guests {count}"), Request { cut: Cut::Count(count), ..*request }));
    fewer.collect()
}

/// Pool and memory of the host may both be too much: then less of one alone does not help.
fn without(request: &Request) -> Vec<(String, Request)> {
    let host = ("--host-memory", Request { host_memory: None, ..*request });
    let pool = ("--pool", Request { pool: None, ..*request });
    let both = ("--host-memory and --pool", Request { host_memory: None, ..pool.1 });
    let all = match (request.host_memory, request.pool) {
        (Some(_), Some(_)) => vec![host, pool, both],
        (Some(_), None) => vec![host],
        (None, Some(_)) => vec![pool],
        (None, None) => Vec::new(),
    };
    all.into_iter().map(|(words, request)| (format!("leave out {words}"), request)).collect()
}
