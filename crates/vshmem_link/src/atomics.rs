//! Whether this machine's atomic operations are atomic for others that work on the same memory:
//! QEMU's emulation (TCG) makes none for a machine that has room for one processor only.

use std::fs;

use crate::link::Link;

/// What QEMU's emulation says that it is.
const TCG: &str = "TCGTCGTCGTCG";

/// What carries out this machine's atomic operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Atomics {
    /// The processor; under this hypervisor, if under one.
    Processor(Option<String>),
    /// QEMU's emulation, for a machine with room for several: atomic for others as well.
    Emulated,
    /// QEMU's emulation of a whole Xen machine, whose domains share memory among themselves only.
    EmulatedXen,
    /// QEMU's emulation, for a machine with room for one: not atomic for anybody outside of it.
    Lost,
}

/// Whether what this machine changes in a pool may undo, or may be undone by, what others change
/// there at the same time. Then nothing must be written to it.
#[must_use]
pub fn loses_changes(link: &dyn Link) -> bool {
    link.leaves_machine() && Atomics::here() == Atomics::Lost
}

impl Atomics {
    /// Those of this machine.
    #[must_use]
    pub fn here() -> Self {
        let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let xen = fs::read_to_string("/sys/hypervisor/type").is_ok_and(|kind| kind.trim() == "xen");
        // From Linux 6.9 on a place in the first package that is empty is not a possible CPU.
        let has_room = possible.trim() != "0" || places_in_package() > 1;
        Self::judge(hypervisor(), has_room, xen)
    }

    fn judge(hypervisor: Option<String>, has_room: bool, xen: bool) -> Self {
        match hypervisor {
            Some(name) if name == TCG && xen => Self::EmulatedXen,
            Some(name) if name == TCG && has_room => Self::Emulated,
            Some(name) if name == TCG => Self::Lost,
            other => Self::Processor(other),
        }
    }
}

/// What emulates this machine's processor, as it says itself.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<String> {
    const PRESENT: u32 = 1 << 31;
    const NAME: u32 = 0x4000_0000;
    if std::arch::x86_64::__cpuid(1).ecx & PRESENT == 0 {
        return None;
    }
    let name = std::arch::x86_64::__cpuid(NAME);
    let bytes = [name.ebx, name.ecx, name.edx].map(u32::to_le_bytes).concat();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// For how many CPUs there is room in this CPU's package, as the CPU says.
#[cfg(target_arch = "x86_64")]
fn places_in_package() -> u32 {
    (std::arch::x86_64::__cpuid(1).ebx >> 16) & 0xff
}

#[cfg(not(target_arch = "x86_64"))]
fn places_in_package() -> u32 {
    1
}

/// QEMU's emulation of this processor does not say that it is one.
#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    let text = fs::read_to_string("/proc/device-tree/hypervisor/compatible").ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(hypervisor: Option<&str>, has_room: bool, xen: bool) -> Atomics {
        Atomics::judge(hypervisor.map(str::to_owned), has_room, xen)
    }

    #[test]
    fn tcg_with_room_for_one_processor_loses_them() {
        assert_eq!(judge(Some(TCG), false, false), Atomics::Lost);
        assert_eq!(judge(Some(TCG), true, false), Atomics::Emulated);
        let kvm = Some("KVMKVMKVM".to_owned());
        assert_eq!(judge(kvm.as_deref(), false, false), Atomics::Processor(kvm));
        assert_eq!(judge(None, false, false), Atomics::Processor(None));
    }

    #[test]
    fn domains_of_one_emulated_xen_are_atomic_to_each_other() {
        assert_eq!(judge(Some(TCG), false, true), Atomics::EmulatedXen);
    }
}
