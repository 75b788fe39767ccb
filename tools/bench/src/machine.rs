//! The facts of the machine that belong with the figures.

use std::fs;

use serde::Serialize;

/// A machine at a moment.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Model of its CPUs.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// System, release and architecture of its kernel.
    pub kernel: String,
    /// What it runs on, if it is itself a virtual machine and says so.
    pub hypervisor: Option<String>,
    /// What makes its figures no measure of a real machine, if anything does: then no conclusion
    /// is drawn from them.
    pub emulated: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: String,
    /// Something else kept more than half of its CPUs busy over the last minute: the figures are
    /// worth little.
    pub busy: bool,
    /// UTC, RFC 3339.
    pub date: String,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here() -> Self {
        let system = rustix::system::uname();
        let parts = [system.sysname(), system.release(), system.machine()];
        let load = read("/proc/loadavg").unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            cpu: cpu_model(&cpuinfo),
            cpus,
            kernel: parts.map(|part| part.to_string_lossy().into_owned()).join(" "),
            hypervisor: hypervisor(),
            emulated: emulation(&cpuinfo, &signature()),
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            busy: is_busy(&load, cpus),
            date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} CPUs, {}", self.cpu, self.cpus, self.kernel)?;
        if let Some(hypervisor) = &self.hypervisor {
            write!(f, ", on {hypervisor}")?;
        }
        write!(f, "; load {}; {}", self.load, self.date)?;
        if let Some(emulated) = &self.emulated {
            write!(
                f,
                "\nThe machine is emulated ({emulated}): these figures do not show real speed."
            )?;
        }
        if self.busy {
            write!(f, "\nThe machine is busy with other work: do not rely on these figures.")?;
        }
        Ok(())
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().trim_end_matches('\0').to_owned();
    (!text.is_empty()).then_some(text)
}

/// x86 names its model; other kernels name it by number, or name the board instead.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name")
        .or_else(|| read("/proc/device-tree/model"))
        .or_else(|| Some(format!("{} part {}", field("CPU implementer")?, field("CPU part")?)))
        .unwrap_or_else(|| "unknown CPU".into())
}

/// Who says that it is the hypervisor, in the CPU's own words.
#[cfg(target_arch = "x86_64")]
fn signature() -> String {
    use std::arch::x86_64::__cpuid;
    const FEATURES: u32 = 1;
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    const HYPERVISOR: u32 = 0x4000_0000;
    if __cpuid(FEATURES).ecx & HYPERVISOR_PRESENT == 0 {
        return String::new();
    }
    let words = __cpuid(HYPERVISOR);
    let bytes: Vec<u8> =
        [words.ebx, words.ecx, words.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> String {
    String::new()
}

/// What emulates CPU or kernel, by what they say of themselves.
pub(crate) fn emulation(cpuinfo: &str, signature: &str) -> Option<String> {
    let says = |name: &str, value: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .any(|(field, text)| field.trim() == name && text.trim().eq_ignore_ascii_case(value))
    };
    if signature.starts_with("TCG") || cpuinfo.contains("QEMU TCG CPU") {
        Some("QEMU without KVM".into())
    } else if says("vendor_id", "User Mode Linux") {
        Some("User Mode Linux: its system calls are much slower than a kernel's".into())
    } else if says("CPU implementer", "0x00") {
        // Arm leaves this number to software.
        Some("a CPU made of software".into())
    } else {
        None
    }
}

fn is_busy(load: &str, cpus: usize) -> bool {
    let last_minute = load.split(' ').next().and_then(|one| one.parse::<f64>().ok());
    last_minute.is_some_and(|tasks| tasks > cpus as f64 / 2.0)
}

fn hypervisor() -> Option<String> {
    if let Some(kind) = read("/sys/hypervisor/type") {
        return Some(kind);
    }
    let flagged = read("/proc/cpuinfo").is_some_and(|text| {
        text.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"))
    });
    let dmi = |field: &str| read(&format!("/sys/class/dmi/id/{field}"));
    let named = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    match (flagged, named.is_empty()) {
        (true, false) => Some(named),
        (true, true) => Some("an unnamed hypervisor".into()),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Fast 9\n"), "Fast 9");
    }

    #[test]
    fn emulators_give_themselves_away() {
        let real = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n";
        assert_eq!(emulation(real, "KVMKVMKVM"), None);
        assert_eq!(emulation(real, ""), None);
        assert!(emulation(real, "TCGTCGTCGTCG").is_some());
        assert!(emulation("vendor_id\t: User Mode Linux\n", "").is_some());
        assert!(emulation("CPU implementer\t: 0x00\n", "").is_some());
        assert_eq!(emulation("CPU implementer\t: 0x41\n", ""), None);
    }

    #[test]
    fn a_load_of_half_the_cpus_is_busy() {
        assert!(is_busy("9.55 9.35 6.41", 2) && is_busy("1.10 0 0", 2));
        assert!(!is_busy("0.90 9 9", 2) && !is_busy("", 2));
    }

    #[test]
    fn this_machine_has_facts() {
        let machine = Machine::here();
        assert!(machine.cpus > 0 && machine.kernel.starts_with("Linux "));
        assert!(machine.date.ends_with('Z') && !machine.load.is_empty(), "{machine}");
    }
}
