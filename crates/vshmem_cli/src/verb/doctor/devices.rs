//! The devices by which a guest is given pools, and the processor that works on them.

use std::fs;
use std::path::{Path, PathBuf};

use vshmem_link::Atomics;
use vshmem_session::ATOMIC_OPTIONS;

use super::line::Line;

/// Red Hat's number for ivshmem.
const IVSHMEM: (&str, &str) = ("0x1af4", "0x1110");
const DEVICES: &str = "/sys/bus/pci/devices";

/// An ivshmem device of this machine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ivshmem {
    address: String,
    bound: bool,
    /// Where its memory begins in the guest's physical memory.
    start: u64,
    memory: PathBuf,
    interrupts: bool,
}

/// One line for each ivshmem device; none where there is none. `driver`: how the driver comes here.
pub fn ivshmem(driver: &str) -> Vec<Line> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let mut found: Vec<Ivshmem> = entries.filter_map(|entry| Ivshmem::at(&entry.path())).collect();
    found.sort_by(|one, other| one.address.cmp(&other.address));
    let root = rustix::process::geteuid().is_root();
    found.iter().map(|device| device.line(root, driver)).collect()
}

impl Ivshmem {
    fn at(path: &Path) -> Option<Self> {
        let text = |name: &str| fs::read_to_string(path.join(name)).ok();
        let number = |name: &str| text(name).map(|text| text.trim().to_owned());
        if number("vendor")? != IVSHMEM.0 || number("device")? != IVSHMEM.1 {
            return None;
        }
        let driver = fs::read_link(path.join("driver")).ok();
        let regions = text("resource").unwrap_or_default();
        Some(Self {
            address: path.file_name()?.to_string_lossy().into_owned(),
            bound: driver.is_some_and(|driver| driver.ends_with("vshmem")),
            start: start(&regions, 2),
            memory: path.join("resource2"),
            // The table of its interrupts.
            interrupts: start(&regions, 1) != 0,
        })
    }

    fn line(&self, root: bool, driver: &str) -> Line {
        const WHAT: &str = "ivshmem device";
        let kind = if self.interrupts { "with interrupts" } else { "no interrupts" };
        // By the rules of memory types only a place above 4 GiB is certain to be cached.
        let low = self.start != 0 && self.start < 1 << 32;
        let where_mapped = if low { ", below 4 GiB" } else { "" };
        let found = format!("{}: {kind}{where_mapped}", self.address);
        if self.bound {
            return Line::good(WHAT, format!("{found}; the driver has it: /dev/vshmem"));
        }
        let remedy = format!(
            "load the driver, for use without root, interrupts and cached memory: {driver}"
        );
        if root {
            let found = format!(
                "{found}; without the driver, so for root alone, through {}",
                self.memory.display()
            );
            Line::note(WHAT, found, remedy)
        } else {
            Line::bad(WHAT, format!("{found}; without the driver it is closed to you"), remedy)
        }
    }
}

/// Where a region of a device begins, 0 if it has none: a line of `resource` is start, end and
/// flags.
fn start(resource: &str, region: usize) -> u64 {
    let first = |line: &str| -> Option<u64> {
        let word = line.split_whitespace().next()?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    resource.lines().nth(region).and_then(first).unwrap_or(0)
}

/// An nvdimm that is not given as a dax device; none where there is none.
pub fn nvdimm() -> Option<Line> {
    const WHAT: &str = "nvdimm";
    let entries = |path: &str| fs::read_dir(path).into_iter().flatten().flatten();
    let names = |path: &str, prefix: &'static str| -> Vec<String> {
        entries(path)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect()
    };
    let dimms = names("/sys/bus/nd/devices", "region").len();
    if dimms == 0 {
        return None;
    }
    let dax = names("/dev", "dax");
    if !dax.is_empty() {
        return Some(Line::good(WHAT, format!("/dev/{}", dax.join(", /dev/"))));
    }
    let found = format!("{dimms} there, none of them a dax device");
    let remedy = "on the host, make the pool with `vshmem pool create --dax`, which writes the label; in the guest: `modprobe -a dax_pmem device_dax`. Never use /dev/pmemN itself: what is written there stays in the page cache";
    Some(Line::bad(WHAT, found, remedy))
}

/// Whether what one processor writes at once is seen at once by others outside this machine.
pub fn atomics() -> Line {
    judge(Atomics::here())
}

fn judge(atomics: Atomics) -> Line {
    const WHAT: &str = "atomic operations";
    match atomics {
        Atomics::Processor(None) => Line::good(WHAT, "the processor's own"),
        Atomics::Processor(Some(name)) => {
            Line::good(WHAT, format!("the processor's own, under {}", known_name(&name)))
        }
        Atomics::EmulatedXen => Line::good(
            WHAT,
            "Xen runs on a machine that QEMU emulates (TCG), and so do all of its domains: atomic among them",
        ),
        Atomics::Emulated => Line::good(
            WHAT,
            "QEMU emulates this machine (TCG) with room for several CPUs: atomic for others, too, unless it was started with thread=single",
        ),
        Atomics::Lost => Line::bad(
            WHAT,
            "QEMU emulates this machine (TCG) with room for one CPU: its atomic operations are not atomic for other machines and the host, so a pool that it was given is refused",
            format!("start QEMU with {ATOMIC_OPTIONS}"),
        ),
    }
}

/// A hypervisor as people call it.
fn known_name(signature: &str) -> &str {
    const KNOWN: [(&str, &str); 5] = [
        ("KVMKVMKVM", "KVM"),
        ("XenVMMXenVMM", "Xen"),
        ("VMwareVMware", "VMware"),
        ("Microsoft Hv", "Hyper-V"),
        ("VBoxVBoxVBox", "VirtualBox"),
    ];
    KNOWN.iter().find(|(known, _)| *known == signature).map_or(signature, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcg_with_room_for_one_cpu_is_a_fault_with_a_remedy() {
        let fault = judge(Atomics::Lost);
        assert!(!fault.good && fault.has_command());
        let kvm = Atomics::Processor(Some("KVMKVMKVM".into()));
        for atomics in [Atomics::Emulated, Atomics::EmulatedXen, kvm] {
            assert!(judge(atomics).good);
        }
    }

    #[test]
    fn the_regions_of_a_device_are_the_lines_of_its_list() {
        let resource = "0x00000000febf1000 0x00000000febf10ff 0x0000000000040200\n\
                        0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                        0x0000000840000000 0x0000000843ffffff 0x000000000014220c\n";
        assert_eq!(start(resource, 2), 0x8_4000_0000);
        assert_eq!(start(resource, 1), 0);
        assert_eq!(start("short", 2), 0);
    }

    #[test]
    fn a_device_without_its_driver_names_it_as_the_remedy() {
        let device = Ivshmem { address: "0000:00:05.0".into(), ..Ivshmem::default() };
        let driver = "`modprobe vshmem`";
        let closed = device.line(false, driver);
        assert!(!closed.good && closed.has_command());
        let line = device.line(true, driver);
        assert!(line.good && line.remedy.is_some_and(|remedy| remedy.contains(driver)));
        let bound = Ivshmem { bound: true, interrupts: true, ..device };
        let line = bound.line(false, driver);
        assert!(line.good && line.found.contains("with interrupts"));
    }
}
