//! The nearest request that a machine can meet, found by trying: requests that ask for less, one
//! thing at a time.

use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::request::{Cut, HugePage, PoolRequest, Request};

/// The least pool that is tried.
const LEAST_POOL: u64 = 1 << 20;

/// A sentence with the first of them that can be met.
pub(super) fn of(
    machine: &Machine,
    request: &Request,
    can_be_met: impl Fn(&Request) -> bool,
) -> String {
    let mut less = smaller_pages(request);
    less.extend(smaller_pools(request));
    less.extend(less_for_host(request));
    less.extend(fewer_guests(machine, request));
    match less.iter().find(|(_, request)| can_be_met(request)) {
        Some((words, _)) => format!("The nearest that can be done: {words}"),
        None => "There is too little memory for a guest, whatever is asked for".into(),
    }
}

fn smaller_pools(request: &Request) -> Vec<(String, Request)> {
    let Some(pool) = request.pool else { return Vec::new() };
    let mut less = Vec::new();
    let mut bytes = pool.bytes / 2;
    while bytes >= LEAST_POOL {
        let pool = Some(PoolRequest { bytes, ..pool });
        less.push((format!("--pool {}", shown(bytes)), Request { pool, ..*request }));
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
    // Down to a sixteenth.
    let less = (1..=4).map(|halvings| bytes >> halvings).filter(|bytes| *bytes >= 1 << 20);
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
