//! Lines of a guest's configuration of Proxmox VE, /etc/pve/qemu-server/VMID.conf (qm.conf(5)). Not
//! tried on one.

use super::form::Device;
use super::host_pool::{HostPool, file_name};
use super::qemu;

/// Files that the monitor makes for its own `ivshmem` line begin so.
pub const PREFIX: &str = "pve-shm-";

/// For a file of the monitor's own its `ivshmem` line, else QEMU's arguments.
pub fn lines(pool: &HostPool, device: Device) -> String {
    match (device, file_name(&pool.path).strip_prefix(PREFIX)) {
        (Device::Plain, Some(name)) => format!("ivshmem: size={},name={name}\n", pool.bytes >> 20),
        _ => format!("args: {}\n", qemu::arguments(pool, device).trim_end().replace('\n', " ")),
    }
}
