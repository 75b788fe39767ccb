//! `vshmem pool show --as`: a pool in the words of a monitor of virtual machines. One file per monitor has its words.

mod cloud_hypervisor;
mod crosvm;
mod firecracker;
mod lent;
mod libvirt;
mod proxmox;
mod qemu;
mod xl;

use std::process::ExitCode;

use vshmem_link::{PoolDomain, XenAdmission};

use crate::failure::{Failure, Outcome, failed};
use crate::show;
use lent::Lent;
pub use lent::{Device, Form};

/// Shows it.
pub fn show(name: &str, form: Form, device: Option<Device>) -> Outcome {
    if form == Form::Xl {
        return show_xl(name, device);
    }
    let lent = Lent::of(name)?;
    let device = device.unwrap_or(lent.usual_device(form));
    lent.require(device, form)?;
    for hint in lent.hints(device, form) {
        eprintln!("vshmem: {hint}");
    }
    show::text(&match form {
        Form::Qemu => qemu::arguments(&lent, device),
        Form::Libvirt => libvirt::elements(&lent, device),
        Form::Proxmox => proxmox::lines(&lent, device),
        Form::CloudHypervisor => cloud_hypervisor::arguments(&lent, device),
        Form::Firecracker => firecracker::configuration(&lent),
        Form::Crosvm => crosvm::arguments(&lent),
        Form::Xl => unreachable!("has been shown"),
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
    show::text(&xl::lines(pool.room().pages))?;
    Ok(ExitCode::SUCCESS)
}
