//! `vshmem pool show --as`: a pool in the words of a virtual machine monitor or a container engine.
//! One file for each has its words; `form.rs` lists them, `show` below calls them.

mod cdi;
mod cloud_hypervisor;
mod containers;
mod crosvm;
mod firecracker;
mod form;
mod host_pool;
mod kubernetes;
mod libvirt;
mod proxmox;
mod qemu;
mod xl;

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use vshmem_link::{PoolDomain, XenAdmission};

use crate::failure::{Failure, Outcome, failed};
use crate::{show, size};

pub use form::{Device, Form};
pub use host_pool::HostPool;
use host_pool::file_name;

/// Shows it.
pub fn show(name: &str, form: Form, device: Option<Device>) -> Outcome {
    if form == Form::Xl {
        return show_xl(name, device);
    }
    if form.is_of_containers() {
        return containers::show(name, form, device);
    }
    let pool = HostPool::of(name)?;
    let device = pool.chosen(device, form)?;
    for hint in hints(&pool, device, form) {
        eprintln!("vshmem: {hint}");
    }
    show::text(&match form {
        Form::Qemu => qemu::arguments(&pool, device),
        Form::Libvirt => libvirt::elements(&pool, device),
        Form::Proxmox => proxmox::lines(&pool, device),
        Form::CloudHypervisor => cloud_hypervisor::arguments(&pool, device),
        Form::Firecracker => firecracker::configuration(&pool),
        Form::Crosvm => crosvm::arguments(&pool),
        Form::Xl | Form::Docker | Form::Podman | Form::Cdi | Form::Kubernetes => {
            unreachable!("has been shown")
        }
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
            show::sanitized(&names.join(", "))
        ),
    }
    eprintln!(
        "vshmem: pool {name}: `vshmem pool serve {name}` in dom0 grants it to guests that are created later"
    );
    show::text(&xl::lines(pool.room().pages))?;
    Ok(ExitCode::SUCCESS)
}

impl HostPool {
    /// The device that a guest of this monitor is given: the one that was named, if a guest could
    /// use it.
    pub fn chosen(&self, named: Option<Device>, form: Form) -> Result<Device, Failure> {
        let device = named.unwrap_or(usual_device(self, form));
        require(self, device, form).map(|()| device)
    }
}

/// What a guest of this monitor is given when none is named.
fn usual_device(pool: &HostPool, form: Form) -> Device {
    match (pool.labelled, pool.served) {
        (true, _) => Device::Dax,
        _ if form.devices() == [Device::Dax] => Device::Dax,
        (false, true) if form.devices().contains(&Device::Doorbell) => Device::Doorbell,
        (false, _) => Device::Plain,
    }
}

/// Refuses what a guest could not use.
fn require(pool: &HostPool, device: Device, form: Form) -> Result<(), Failure> {
    let name = &pool.name;
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
        Device::Dax if !pool.labelled => failed(format!(
            "pool {name}: --device dax: it has no label, so a guest would show it as a block device. Create it with `vshmem pool create {name} --size {} --dax`",
            size::show(pool.bytes)
        )),
        Device::Plain | Device::Doorbell if pool.labelled => failed(format!(
            "pool {name}: it was made with --dax, so a label lies in front of it, which ivshmem guests would take for the pool. Use --device dax, or create one without --dax"
        )),
        Device::Plain | Device::Doorbell if !pool.bytes.is_power_of_two() => failed(format!(
            "pool {name}: its file has {} bytes, and a PCI device can only show a power of two. Create it again with --size {}, or with --dax",
            pool.bytes,
            size::show(pool.bytes.next_power_of_two())
        )),
        Device::Plain
            if form == Form::Libvirt && pool.path.parent() != Some(Path::new("/dev/shm")) =>
        {
            failed(format!(
                "pool {name}: libvirt looks for the memory of ivshmem-plain in /dev/shm alone, and this is {}. Use --device doorbell with `vshmem pool serve {name}`",
                pool.path.display()
            ))
        }
        _ => Ok(()),
    }
}

/// What to mind; nothing that the tool itself would say.
fn hints(pool: &HostPool, device: Device, form: Form) -> Vec<String> {
    let mut hints = Vec::new();
    let name = &pool.name;
    if device == Device::Doorbell && !pool.served {
        hints.push(format!(
            "pool {name}: it has no server yet; start `vshmem pool serve {name}` before the guest"
        ));
    }
    // Hardware virtualisation has no such trouble, and --as qemu cannot know what is chosen beside.
    let emulates = !Path::new("/dev/kvm").exists();
    match form {
        Form::Qemu => hints.push(qemu::ONE_CPU.into()),
        Form::Libvirt if emulates => hints.push(libvirt::ONE_CPU.into()),
        _ => {}
    }
    if form == Form::Proxmox && file_name(&pool.path).starts_with(proxmox::PREFIX) {
        hints.push(format!(
            "{}: Proxmox VE removes this file when the guest stops. A pool of another name is given by an `args:` line and stays",
            pool.path.display()
        ));
    }
    if device == Device::Dax && form == Form::Qemu {
        hints.push(format!(
            "pool {name}: never with -incoming or -loadvm as it is: what was saved would be written over the pool. docs/guide/move-a-guest.md has the ways that keep it"
        ));
    }
    if device == Device::Dax && form == Form::Libvirt {
        hints.extend(libvirt::hints(pool));
    }
    if form == Form::Libvirt && pool.mode & 0o066 == 0 {
        hints.push(format!(
            "pool {name}: only its owner may open it (mode {:04o}); QEMU under libvirt runs as a user of its own. Create it with --mode 0660 --group kvm, or the like",
            pool.mode & 0o777
        ));
    }
    hints
}
