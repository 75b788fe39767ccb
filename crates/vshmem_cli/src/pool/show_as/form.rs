//! Which monitors of virtual machines and container engines there are, and what each can show to a
//! guest.

use clap::ValueEnum;

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Arguments of QEMU's command line.
    Qemu,
    /// Elements of a libvirt domain.
    Libvirt,
    /// Lines of a guest's configuration of Proxmox VE.
    Proxmox,
    /// Arguments of Cloud Hypervisor's command line.
    CloudHypervisor,
    /// A part of Firecracker's configuration file.
    Firecracker,
    /// Arguments of crosvm's command line.
    Crosvm,
    /// Lines of an xl configuration.
    Xl,
    /// Options of `docker run`.
    Docker,
    /// Options of `podman run`.
    Podman,
    /// A file for /etc/cdi, which Docker, Podman and containerd read.
    Cdi,
    /// The part of a pod's template that gives it the pool.
    Kubernetes,
}

impl Form {
    /// What this monitor can show to a guest.
    pub fn devices(self) -> &'static [Device] {
        match self {
            Self::Qemu | Self::Libvirt | Self::Proxmox => {
                &[Device::Plain, Device::Doorbell, Device::Dax]
            }
            Self::CloudHypervisor => &[Device::Plain, Device::Dax],
            Self::Firecracker | Self::Crosvm => &[Device::Dax],
            Self::Xl | Self::Docker | Self::Podman | Self::Cdi | Self::Kubernetes => &[],
        }
    }

    /// Whether it runs containers, which use the pool's file and no device.
    pub fn is_of_containers(self) -> bool {
        matches!(self, Self::Docker | Self::Podman | Self::Cdi | Self::Kubernetes)
    }

    /// Its word on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What a guest sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// A PCI device with the memory alone (ivshmem-plain).
    Plain,
    /// A PCI device with interrupts (ivshmem-doorbell); needs `vshmem pool serve`.
    Doorbell,
    /// An nvdimm, which shows as /dev/daxX.Y; the pool has to be made with --dax.
    Dax,
}
