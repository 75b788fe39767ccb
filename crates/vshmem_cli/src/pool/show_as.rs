//! `vshmem pool show --as`: a pool in the words of a hypervisor's tools.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use vshmem_link::{Link, PoolDomain, XenAdmission};
use vshmem_serve::{Places, Record};
use vshmem_session::{Duty, find, identify};

use crate::failure::{Failure, Outcome, failed};
use crate::{show, size};

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Arguments of QEMU's command line.
    Qemu,
    /// Elements of a libvirt domain.
    Libvirt,
    /// Lines of an xl configuration.
    Xl,
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
struct Lent {
    name: String,
    place: PathBuf,
    bytes: u64,
    labelled: bool,
    mode: u32,
    socket: PathBuf,
    vectors: u32,
    served: bool,
}

/// Shows it.
pub fn show(name: &str, form: Form, device: Option<Device>) -> Outcome {
    if form == Form::Xl {
        return show_xl(name, device);
    }
    let lent = Lent::of(name)?;
    let device = device.unwrap_or(lent.usual_device());
    lent.require(device, form)?;
    for hint in lent.hints(device, form) {
        eprintln!("vshmem: {hint}");
    }
    show::text(&match form {
        Form::Libvirt => lent.libvirt(device),
        _ => lent.qemu(device),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A Xen guest is given its pools from outside: its configuration has nothing to say about them but
/// how many grants it may have mapped.
fn show_xl(name: &str, device: Option<Device>) -> Outcome {
    if device.is_some() {
        return Err(Failure::Usage("--device: Xen guests are granted pages, not devices".into()));
    }
    let pool = match PoolDomain::open(name) {
        Ok(Some(pool)) => pool,
        Ok(None) => {
            return failed(format!(
                "pool {name}: it has no Xen domain, so it cannot be granted to guests. Create it with `vshmem pool create {name} --xen --size 16M`"
            ));
        }
        Err(error) => return failed(format!("pool {name}: {error}")),
    };
    match pool.admission() {
        XenAdmission::All => eprintln!(
            "vshmem: pool {name}: every guest becomes a member; the line below is all that its configuration needs"
        ),
        XenAdmission::Named(names) => eprintln!(
            "vshmem: pool {name}: guests of these names become members: {}",
            show::clean(&names.join(", "))
        ),
    }
    eprintln!(
        "vshmem: pool {name}: `vshmem pool serve {name}` in dom0 grants it to guests that are created later"
    );
    show::text(&xl(pool.room().pages))?;
    Ok(ExitCode::SUCCESS)
}

/// Each process maps the tables and what it attaches, and each page that is mapped takes an entry of
/// its domain's maptrack table: 512 to a frame. Room for 32 processes that have mapped all.
fn xl(pages: u32) -> String {
    const XENS_OWN: u32 = 1024;
    let frames = pages.saturating_mul(32).div_ceil(512);
    format!("max_maptrack_frames = {}\n", frames.max(XENS_OWN))
}

impl Lent {
    fn of(name: &str) -> Result<Self, Failure> {
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

    fn usual_device(&self) -> Device {
        match (self.labelled, self.served) {
            (true, _) => Device::Dax,
            (false, true) => Device::Doorbell,
            (false, false) => Device::Plain,
        }
    }

    /// Refuses what a guest could not use.
    fn require(&self, device: Device, form: Form) -> Result<(), Failure> {
        let name = &self.name;
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
    fn hints(&self, device: Device, form: Form) -> Vec<String> {
        let mut hints = Vec::new();
        let name = &self.name;
        if device == Device::Doorbell && !self.served {
            hints.push(format!(
                "pool {name}: it has no server yet; start `vshmem pool serve {name}` before the guest"
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

    fn qemu(&self, device: Device) -> String {
        let id = format!("vshmem-{}", self.name);
        let memory = format!(
            "-object memory-backend-file,id={id},share=on,mem-path={},size={}",
            self.place.display(),
            self.bytes
        );
        match device {
            Device::Plain => format!("{memory}\n-device ivshmem-plain,memdev={id}\n"),
            Device::Doorbell => format!(
                "-chardev socket,id={id},path={}\n-device ivshmem-doorbell,chardev={id},vectors={}\n",
                self.socket.display(),
                self.vectors
            ),
            // Options of -machine and -m add up with those given elsewhere.
            Device::Dax => format!(
                "-machine nvdimm=on\n-m slots=4,maxmem={}G\n{memory},align=2M\n-device nvdimm,memdev={id}\n",
                self.room()
            ),
        }
    }

    /// GiB of address space for a guest with the pool and its own memory.
    fn room(&self) -> u64 {
        (self.bytes.next_power_of_two() >> 30).max(64) * 2
    }

    fn libvirt(&self, device: Device) -> String {
        match device {
            Device::Plain => format!(
                "<shmem name='{}'>\n  <model type='ivshmem-plain'/>\n  <size unit='KiB'>{}</size>\n</shmem>\n",
                file_name(&self.place),
                self.bytes >> 10
            ),
            Device::Doorbell => format!(
                "<shmem name='{}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{}'/>\n  <msi vectors='{}' ioeventfd='on'/>\n</shmem>\n",
                file_name(&self.place),
                self.socket.display(),
                self.vectors
            ),
            Device::Dax => format!(
                "<memory model='nvdimm' access='shared'>\n  <source>\n    <path>{}</path>\n    <alignsize unit='KiB'>2048</alignsize>\n  </source>\n  <target>\n    <size unit='KiB'>{}</size>\n    <node>0</node>\n  </target>\n</memory>\n",
                self.place.display(),
                self.bytes >> 10
            ),
        }
    }
}

fn file_name(place: &Path) -> String {
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

#[cfg(test)]
mod tests {
    use super::xl;

    #[test]
    fn a_guest_of_xens_may_map_a_large_pool_many_times() {
        assert_eq!(xl(4096), "max_maptrack_frames = 1024\n");
        assert_eq!(xl(65536), "max_maptrack_frames = 4096\n");
    }
}
