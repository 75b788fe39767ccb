//! What to do on the host before the guests start: what `crate::settings` finds by looking, as
//! commands that look for themselves, as the plan may be for another machine.

use crate::form::bytes as shown;
use crate::machine::Machine;
use crate::number_set::NumberSet;
use crate::request::Request;
use crate::result::{Guest, Pool, Step};
use crate::settings::{FASTEST, SWITCHES, huge_page_directory, huge_pages_of, promised_file};

/// Where a command keeps what was there.
const KEPT: &str = "/run/vshmem-plan";

/// In the order in which it is done.
pub(super) fn of(
    machine: &Machine,
    guests: &[Guest],
    pools: &[Pool],
    request: &Request,
) -> Vec<Step> {
    let mut steps = SWITCHES.map(|(file, purpose)| switched_off(purpose, file)).to_vec();
    steps.push(highest_frequency(guests));
    if let Some(page) = request.huge_pages.map(|page| page.bytes()) {
        let nodes = machine.home_nodes();
        steps.extend(nodes.iter().filter_map(|node| {
            let needed = huge_pages_of(guests, page, node);
            (needed > 0).then(|| reserved(page, node, needed))
        }));
    }
    steps.extend(pools.iter().map(|pool| Step {
        purpose: format!(
            "pool {} on node{} {}",
            pool.name,
            if pool.nodes.len() == 1 { "" } else { "s" },
            pool.nodes
        ),
        command: format!(
            "vshmem pool create {} --size {} --numa {}",
            pool.name,
            shown(pool.bytes),
            pool.numa_option()
        ),
        undo: format!("vshmem pool rm {}", pool.name),
    }));
    steps
}

/// What was there is kept in a file, so that it comes back whatever it was.
fn switched_off(purpose: &str, file: &str) -> Step {
    let kept = format!("{KEPT}{}", file.replace('/', "."));
    Step {
        purpose: purpose.into(),
        command: format!("cat {file} >{kept} && echo 0 >{file}"),
        undo: format!("cat {kept} >{file} && rm {kept}"),
    }
}

/// A CPU whose driver has no such governor keeps its own.
fn highest_frequency(guests: &[Guest]) -> Step {
    let cpus: NumberSet = guests.iter().flat_map(|guest| guest.vcpus.iter().copied()).collect();
    let list = cpus.to_string();
    let ranges: Vec<String> = list
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => format!("$(seq {first} {last})"),
            None => part.to_owned(),
        })
        .collect();
    let each = format!(
        "for cpu in {}; do cd /sys/devices/system/cpu/cpu$cpu/cpufreq 2>/dev/null",
        ranges.join(" ")
    );
    let kept = format!("{KEPT}.governor.$cpu");
    Step {
        purpose: "the guests' CPUs run at their highest frequency".into(),
        command: format!(
            "({each} && grep -qsw {FASTEST} scaling_available_governors && cat scaling_governor >{kept} && echo {FASTEST} >scaling_governor; done)"
        ),
        undo: format!(
            "({each} && [ -e {kept} ] && cat {kept} >scaling_governor && rm {kept}; done)"
        ),
    }
}

/// Pages that are in use or promised are not the guests'.
fn reserved(page: u64, node: u32, needed: u64) -> Step {
    let directory = huge_page_directory(page, node).display().to_string();
    let promised = promised_file(page).display().to_string();
    let kept = format!("{KEPT}.node{node}.{}kB", page >> 10);
    Step {
        purpose: format!("{needed} huge pages of {} free on node {node}", shown(page)),
        command: format!(
            "(cd {directory} && cat nr_hugepages >{kept} && read all <nr_hugepages && read free <free_hugepages && read promised <{promised} && {{ [ $free -ge $((promised + {needed})) ] || echo $((all - free + promised + {needed})) >nr_hugepages; }})"
        ),
        undo: format!("cat {kept} >{directory}/nr_hugepages && rm {kept}"),
    }
}
