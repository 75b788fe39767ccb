//! The kernel's settings.

use super::Finding;
use crate::number_set::NumberSet;
use crate::result::Plan;
use crate::running::HostSettings;
use crate::settings::{MERGING, NUMA_BALANCING};

pub(super) fn settings(plan: &Plan, host: &HostSettings) -> Vec<Finding> {
    vec![
        switch(
            "NUMA balancing",
            host.numa_balancing.as_deref(),
            &["0"],
            "the kernel moves pages of pinned guests",
            NUMA_BALANCING,
        ),
        switch(
            "merging of equal pages (KSM)",
            host.merging.as_deref(),
            &["0", "2"],
            "the kernel merges pages of different guests",
            MERGING,
        ),
        governors(plan, &host.governors),
    ]
}

fn switch(what: &str, found: Option<&str>, off: &[&str], harm: &str, file: &str) -> Finding {
    match found {
        None => Finding::good(what, "this kernel has none"),
        Some(word) if off.contains(&word) => Finding::good(what, "off"),
        Some(word) => {
            Finding::wrong(what, format!("on ({word}): {harm}"), "off", format!("`echo 0 >{file}`"))
        }
    }
}

fn governors(plan: &Plan, found: &[(u32, String)]) -> Finding {
    const WHAT: &str = "frequency governor";
    if found.is_empty() {
        return Finding::good(WHAT, "the kernel sets no frequencies here");
    }
    let slow: Vec<_> = found.iter().filter(|(_, word)| word != "performance").collect();
    let Some((_, word)) = slow.first() else {
        return Finding::good(WHAT, format!("performance on CPUs {}", plan.guest_cpus()));
    };
    let cpus: NumberSet = slow.iter().map(|(cpu, _)| *cpu).collect();
    let list: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    Finding::wrong(
        WHAT,
        format!("{word} on CPUs {cpus}"),
        "performance",
        format!(
            "`for cpu in {}; do echo performance >/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor; done`",
            list.join(" ")
        ),
    )
}
