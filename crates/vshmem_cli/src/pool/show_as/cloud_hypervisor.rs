//! Arguments of Cloud Hypervisor (its docs/ivshmem.md and docs/device_model.md). Not tried with one.

use super::lent::{Device, Lent};

/// The arguments.
pub fn arguments(lent: &Lent, device: Device) -> String {
    match device {
        // Without discard_writes the file is mapped shared.
        Device::Dax => format!("--pmem file={}\n", lent.place.display()),
        _ => format!("--ivshmem path={},size={}\n", lent.place.display(), lent.bytes),
    }
}
