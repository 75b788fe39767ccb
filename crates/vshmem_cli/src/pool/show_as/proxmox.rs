//! Lines of a guest's configuration of Proxmox VE, /etc/pve/qemu-server/VMID.conf (qm.conf(5)). Not tried on one.

use super::lent::{Device, Lent, PROXMOX_PREFIX, file_name};
use super::qemu;

/// For a file of the monitor's own its `ivshmem` line, else QEMU's arguments.
pub fn lines(lent: &Lent, device: Device) -> String {
    match (device, file_name(&lent.place).strip_prefix(PROXMOX_PREFIX)) {
        (Device::Plain, Some(name)) => format!("ivshmem: size={},name={name}\n", lent.bytes >> 20),
        _ => format!("args: {}\n", qemu::arguments(lent, device).trim_end().replace('\n', " ")),
    }
}
