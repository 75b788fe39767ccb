//! The kernel's settings.

use super::Finding;
use crate::number_set::NumberSet;
use crate::running::HostSettings;
use crate::settings::{FASTEST, MERGING, NUMA_BALANCING};

pub(super) fn settings(host: &HostSettings) -> Vec<Finding> {
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
        governors(&host.governors),
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

fn governors(found: &[(u32, String)]) -> Finding {
    const WHAT: &str = "frequency governor";
    if found.is_empty() {
        return Finding::good(WHAT, "the kernel can keep no CPU at its highest frequency");
    }
    let slow: Vec<_> = found.iter().filter(|(_, word)| word != FASTEST).collect();
    let Some((_, word)) = slow.first() else {
        let cpus: NumberSet = found.iter().map(|(cpu, _)| *cpu).collect();
        return Finding::good(WHAT, format!("{FASTEST} on CPUs {cpus}"));
    };
    let cpus: NumberSet = slow.iter().map(|(cpu, _)| *cpu).collect();
    let list: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    Finding::wrong(
        WHAT,
        format!("{word} on CPUs {cpus}"),
        FASTEST,
        format!(
            "`for cpu in {}; do echo {FASTEST} >/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor; done`",
            list.join(" ")
        ),
    )
}
