//! The facts that belong with a sample: the machine, and what else went on in it meanwhile.

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The machine at the beginning of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Model of its CPUs.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// System, release and architecture of its kernel.
    pub kernel: String,
    /// What it runs on, if it is itself a virtual machine and says so.
    pub hypervisor: Option<String>,
    /// What guests are accelerated by here, as far as it is known: `KVM`, or nothing.
    pub accelerator: Option<String>,
    /// What the guests are that take part.
    #[serde(default)]
    pub guests: Option<String>,
    /// The CPUs' frequency governor, where there is one.
    pub governor: Option<String>,
    /// Whether large pages are made unasked.
    pub huge_pages: Option<String>,
    /// What makes its figures no measure of a real machine, if anything does.
    pub emulated: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: String,
    /// Something else kept more than half of its CPUs busy over the last minute.
    pub busy: bool,
    /// CPU time since boot that went to other machines on the same host, in percent.
    pub steal_percent: f64,
    /// UTC, RFC 3339.
    pub date: String,
    /// Version of this program.
    pub version: String,
}

impl Facts {
    /// Of this machine, now.
    #[must_use]
    pub fn here() -> Self {
        let machine = Machine::here();
        let now = Counters::now();
        Self {
            cpu: machine.cpu,
            cpus: machine.cpus,
            memory_mib: memory_mib().unwrap_or(0),
            kernel: machine.kernel,
            hypervisor: machine.hypervisor,
            accelerator: accelerator(),
            guests: None,
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(chosen),
            emulated: machine.emulated,
            load: machine.load,
            busy: machine.busy,
            steal_percent: percent(now.steal, now.all),
            date: machine.date,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A /dev/kvm that is there proves nothing: under some hypervisors no guest boots with it.
fn accelerator() -> Option<String> {
    match vshmem_lab::kvm_boots_guests() {
        Some(boots) => boots.then(|| "KVM".to_owned()),
        None => fs::metadata("/dev/kvm")
            .ok()
            .map(|_| "perhaps KVM (/dev/kvm is there, not tried)".to_owned()),
    }
}

/// What went on in the machine during a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    /// How long the run took with everything that belongs to it, in seconds.
    pub seconds: f64,
    /// Load average over a minute, before it.
    pub load: f64,
    /// CPU time that went to other machines, in percent.
    pub steal_percent: f64,
    /// Interrupts of this machine, each second.
    pub interrupts: f64,
    /// Switches from one process to another in this machine, each second.
    pub switches: f64,
    /// When it ended: seconds since 1970.
    pub ended: i64,
}

/// Looks at the machine before and after.
#[derive(Debug)]
pub struct LoadMonitor {
    began: Instant,
    load: f64,
    before: Counters,
}

impl LoadMonitor {
    /// Before the run.
    #[must_use]
    pub fn begin() -> Self {
        let load = read("/proc/loadavg").unwrap_or_default();
        Self {
            began: Instant::now(),
            load: load.split(' ').next().and_then(|one| one.parse().ok()).unwrap_or(0.0),
            before: Counters::now(),
        }
    }

    /// After it.
    #[must_use]
    pub fn end(self) -> Load {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-6);
        let now = Counters::now();
        let since = |after: u64, before: u64| after.saturating_sub(before);
        let (steal, all) = (since(now.steal, self.before.steal), since(now.all, self.before.all));
        Load {
            seconds,
            load: self.load,
            steal_percent: percent(steal, all),
            interrupts: since(now.interrupts, self.before.interrupts) as f64 / seconds,
            switches: since(now.switches, self.before.switches) as f64 / seconds,
            ended: jiff::Timestamp::now().as_second(),
        }
    }
}

/// Some of /proc/stat.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Ticks of all CPUs.
    all: u64,
    /// Those that went to other machines.
    steal: u64,
    interrupts: u64,
    switches: u64,
}

impl Counters {
    fn now() -> Self {
        Self::of(&read("/proc/stat").unwrap_or_default())
    }

    fn of(stat: &str) -> Self {
        let numbers = |name: &str| -> Vec<u64> {
            let line = stat.lines().find(|line| line.split(' ').next() == Some(name));
            let words = line.unwrap_or_default().split_whitespace().skip(1);
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let first = |name: &str| numbers(name).first().copied().unwrap_or(0);
        let ticks = numbers("cpu");
        // The last two, time spent for guests, are counted in the first two already.
        let all = ticks.iter().take(8).sum();
        let steal = ticks.get(7).copied().unwrap_or(0);
        Self { all, steal, interrupts: first("intr"), switches: first("ctxt") }
    }
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// `always [madvise] never` is madvise.
fn chosen(text: String) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn memory_mib() -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let stat =
            "cpu  10 20 30 40 0 0 0 100 7 7\ncpu0 1 1 1 1\nintr 1234 5 6\nctxt 99\nbtime 1\n";
        let expected = Counters { all: 200, steal: 100, interrupts: 1234, switches: 99 };
        assert_eq!(Counters::of(stat), expected);
        assert_eq!(Counters::of(""), Counters::default());
        assert_eq!(percent(100, 200), 50.0);
    }

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never".into()), Some("madvise".into()));
        assert_eq!(chosen("".into()), None);
    }
}
