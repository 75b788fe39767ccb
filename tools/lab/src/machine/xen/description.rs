//! What a domain is made from: a description for Xen's tools, and its own initial file system,
//! whose last part are its orders.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Doing, Result};
use crate::host::directory::open_directory;
use crate::machine::plan::{Description, Plan};
use crate::machine::qemu::ramdisk;
use crate::machine::qemu::words::hardware_address;
use crate::model::boot::{BOOT_VARIABLE, CONNECT, LAB};
use crate::model::names::{INIT_VERB, domain};

/// What every domain's kernel gets on its command line.
pub(super) const KERNEL_WORDS: &str = "quiet panic=-1 mitigations=off random.trust_cpu=on";

/// Where a domain finds its orders.
const ORDERS: &str = "/orders.json";

/// Writes both, and returns the directory that they are in, and the description's path in dom0. The
/// directory has a name of its own for each boot, because dom0 remembers what it has read under a
/// name.
pub(super) fn write(plan: &Plan<'_>) -> Result<Description> {
    static BOOTS: AtomicU32 = AtomicU32::new(1);
    let boot = BOOTS.fetch_add(1, Ordering::Relaxed);
    let directory = plan.directory.private_of(plan.guest).join(format!("boot{boot}"));
    open_directory(&directory)?;
    let ramdisk = directory.join("ramdisk");
    let common = plan.directory.guest_ramdisk();
    fs::copy(&common, &ramdisk).doing(|| format!("copy {common:?} to {ramdisk:?}"))?;
    let writing = || format!("write {ramdisk:?}");
    let mut file = File::options().append(true).open(&ramdisk).doing(writing)?;
    let orders = plan.directory.boot(plan.guest);
    let orders = fs::read(&orders).doing(|| format!("read {orders:?}"))?;
    let mut archive = ramdisk::Archive::default();
    archive.file(Path::new(ORDERS), ramdisk::PRIVATE, &orders);
    file.write_all(&archive.end()).doing(writing)?;
    let config = directory.join("config");
    fs::write(&config, text(plan, &ramdisk)).doing(|| format!("write {config:?}"))?;
    Ok(Description { config: in_dom0(plan, &config), directory })
}

/// The path in dom0 of a file in the lab's directory.
pub(super) fn in_dom0(plan: &Plan<'_>, path: &Path) -> PathBuf {
    Path::new(LAB).join(path.strip_prefix(plan.directory.path()).unwrap_or(path))
}

fn text(plan: &Plan<'_>, ramdisk: &Path) -> String {
    let kernel = plan.directory.kernel();
    let address = hardware_address(plan.guest);
    format!(
        "name = \"{name}\"\n\
         type = \"pv\"\n\
         kernel = \"{kernel}\"\n\
         ramdisk = \"{ramdisk}\"\n\
         cmdline = \"console=hvc0 {KERNEL_WORDS} {BOOT_VARIABLE}={ORDERS} {INIT_VERB}\"\n\
         memory = {memory}\n\
         vcpus = 1\n\
         vif = [ \"mac={address},script={CONNECT}\" ]\n\
         on_poweroff = \"destroy\"\n\
         on_reboot = \"destroy\"\n\
         on_crash = \"destroy\"\n",
        name = domain(plan.guest),
        kernel = in_dom0(plan, &kernel).display(),
        ramdisk = in_dom0(plan, ramdisk).display(),
        memory = plan.record.memory_mib,
    )
}
