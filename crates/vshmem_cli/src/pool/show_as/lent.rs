//! A pool as far as a hypervisor is concerned, and what each monitor can do with one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use vshmem_link::Link;
use vshmem_serve::{Places, Record};
use vshmem_session::{Duty, find, identify};

use crate::failure::{Failure, failed};
use crate::size;

/// Files that the monitor makes for its own `ivshmem` line begin so.
pub(super) const PROXMOX_PREFIX: &str = "pve-shm-";

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
}

impl Form {
    /// What this monitor can show to a guest.
    pub(super) fn devices(self) -> &'static [Device] {
        match self {
            Self::Qemu | Self::Libvirt | Self::Proxmox => {
                &[Device::Plain, Device::Doorbell, Device::Dax]
            }
            Self::CloudHypervisor => &[Device::Plain, Device::Dax],
            Self::Firecracker | Self::Crosvm => &[Device::Dax],
            Self::Xl => &[],
        }
    }

    pub(super) fn name(self) -> String {
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

/// A pool as far as a hypervisor is concerned.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) name: String,
    pub(super) place: PathBuf,
    pub(super) bytes: u64,
    pub(super) labelled: bool,
    pub(super) mode: u32,
    pub(super) socket: PathBuf,
    pub(super) vectors: u32,
    pub(super) served: bool,
}

impl Lent {
    pub(super) fn of(name: &str) -> Result<Self, Failure> {
        let link = find(name)?;
        identify(link.as_ref())?;
        let place = std::path::absolute(link.place()).unwrap_or_else(|_| link.place().to_owned());
        if link.kind() != "local" {
            return failed(format!(
                "pool {name}: {} is lent to this guest; ask on the host",
                place.display()
            ));
        }
        let meta = std::fs::metadata(&place).map_err(|error| {
            Failure::Failed(format!("{}: cannot look at it: {error}", place.display()))
        })?;
        // Hypervisors split their options at commas; names of pools have none.
        if place.to_str().is_none_or(|text| text.contains([',', '\'', '<', '&', ' '])) {
            return failed(format!(
                "{}: a path with commas, quotes or spaces cannot be written down for a hypervisor. Move the pool's file",
                place.display()
            ));
        }
        let name = pool_name(&place, link.as_ref());
        let record = Record::read(&Places::usual(&name).record);
        Ok(Self {
            served: Duty::Server.is_manned(&place),
            socket: record
                .as_ref()
                .map_or_else(|| Places::usual(&name).socket, |record| record.socket.clone()),
            vectors: record.map_or(1, |record| record.vectors),
            bytes: meta.len(),
            labelled: meta.len() != link.bytes(),
            mode: meta.mode(),
            name,
            place,
        })
    }

    pub(super) fn usual_device(&self, form: Form) -> Device {
        match (self.labelled, self.served) {
            (true, _) => Device::Dax,
            _ if form.devices() == [Device::Dax] => Device::Dax,
            (false, true) if form.devices().contains(&Device::Doorbell) => Device::Doorbell,
            (false, _) => Device::Plain,
        }
    }

    /// Refuses what a guest could not use.
    pub(super) fn require(&self, device: Device, form: Form) -> Result<(), Failure> {
        let name = &self.name;
        if !form.devices().contains(&device) {
            let devices: Vec<String> = form
                .devices()
                .iter()
                .filter_map(|device| Some(device.to_possible_value()?.get_name().to_owned()))
                .collect();
            return Err(Failure::Usage(format!(
                "--as {}: this monitor has no such device. Use --device {}",
                form.name(),
                devices.join(" or ")
            )));
        }
        match device {
            Device::Dax if !self.labelled => failed(format!(
                "pool {name}: --device dax: it has no label, so a guest would show it as a block device. Create it with `vshmem pool create {name} --size {} --dax`",
                size::show(self.bytes)
            )),
            Device::Plain | Device::Doorbell if self.labelled => failed(format!(
                "pool {name}: it was made with --dax, so a label lies in front of it, which ivshmem guests would take for the pool. Use --device dax, or create one without --dax"
            )),
            Device::Plain | Device::Doorbell if !self.bytes.is_power_of_two() => failed(format!(
                "pool {name}: its file has {} bytes, and a PCI device can only show a power of two. Create it again with --size {}, or with --dax",
                self.bytes,
                size::show(self.bytes.next_power_of_two())
            )),
            Device::Plain
                if form == Form::Libvirt && self.place.parent() != Some(Path::new("/dev/shm")) =>
            {
                failed(format!(
                    "pool {name}: libvirt looks for the memory of ivshmem-plain in /dev/shm alone, and this is {}. Use --device doorbell with `vshmem pool serve {name}`",
                    self.place.display()
                ))
            }
            _ => Ok(()),
        }
    }

    /// What to mind; nothing that the tool itself would say.
    pub(super) fn hints(&self, device: Device, form: Form) -> Vec<String> {
        let mut hints = Vec::new();
        let name = &self.name;
        if device == Device::Doorbell && !self.served {
            hints.push(format!(
                "pool {name}: it has no server yet; start `vshmem pool serve {name}` before the guest"
            ));
        }
        if form == Form::Proxmox && file_name(&self.place).starts_with(PROXMOX_PREFIX) {
            hints.push(format!(
                "{}: Proxmox VE removes this file when the guest stops. A pool of another name is given by an `args:` line and stays",
                self.place.display()
            ));
        }
        if device == Device::Dax && form == Form::Libvirt {
            hints.push(
                "the domain needs room for it as well: <maxMemory slots='4' unit='GiB'>...</maxMemory> and a NUMA cell (<cpu><numa><cell .../></numa></cpu>)".to_owned(),
            );
        }
        if form == Form::Libvirt && self.mode & 0o066 == 0 {
            hints.push(format!(
                "pool {name}: only its owner may open it (mode {:04o}); QEMU under libvirt runs as a user of its own. Create it with --mode 0660 --group kvm, or the like",
                self.mode & 0o777
            ));
        }
        hints
    }
}

pub(super) fn file_name(place: &Path) -> String {
    place.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name that a server of this pool goes by.
fn pool_name(place: &Path, link: &dyn Link) -> String {
    let file = file_name(place);
    match file.strip_prefix("vshmem.") {
        Some(name) => name.to_owned(),
        None => file_name(link.place()),
    }
}
