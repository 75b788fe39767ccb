//! Lines of a guest's configuration of Proxmox VE, /etc/pve/qemu-server/VMID.conf (qm.conf(5)). Not tried on one.

use super::{Device, Lent, file_name, qemu};

/// Files that the monitor makes for its own `ivshmem` line begin so.
pub const PREFIX: &str = "pve-shm-";

/// For a file of the monitor's own its `ivshmem` line, else QEMU's arguments.
pub fn lines(lent: &Lent, device: Device) -> String {
    match (device, file_name(&lent.place).strip_prefix(PREFIX)) {
        (Device::Plain, Some(name)) => format!("ivshmem: size={},name={name}\n", lent.bytes >> 20),
        _ => format!("args: {}\n", qemu::arguments(lent, device).trim_end().replace('\n', " ")),
    }
}
