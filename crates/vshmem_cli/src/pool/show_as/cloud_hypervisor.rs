//! Arguments of Cloud Hypervisor (its docs/ivshmem.md and docs/device_model.md). Not tried with
//! one.

use super::form::Device;
use super::host_pool::HostPool;

/// The arguments.
pub fn arguments(pool: &HostPool, device: Device) -> String {
    match device {
        // Without discard_writes the file is mapped shared.
        Device::Dax => format!("--pmem file={}\n", pool.path.display()),
        _ => format!("--ivshmem path={},size={}\n", pool.path.display(), pool.bytes),
    }
}
