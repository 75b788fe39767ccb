//! Link `ivshmem`: the memory of a PCI device that QEMU makes of a pool's file.
//!
//! It works in three grades. With the driver (`kernel/ivshmem`) the device is `/dev/vshmem/NAME`:
//! cached, in huge pages, for the users that its mode lets in; on ivshmem-doorbell with interrupts
//! (`interrupts`), on ivshmem-plain without (`driver`). Without the driver root maps the resource
//! file in sysfs (`sysfs`). That is `resource2`, not `resource2_wc`: write-combining memory has not
//! the memory ordering that locks are built on.
//!
//! The words that threads sleep on lie in a file of the domain in all grades, so that processes of
//! different grades still wake each other, and so that an agent that is notified finds them close
//! together.

mod driver;
mod sysfs;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use vshmem_sync::Doorbell;

use crate::device::Device;
use crate::guide::guide;
use crate::link::{Capabilities, Link, LinkKind};
use crate::region::RegionError;
use driver::{DriverDoorbell, Info};

/// Where the kernel lists PCI devices.
const PCI: &str = "/sys/bus/pci/devices";

/// Advice to a user who may not use the driver's device.
const ASK_FOR_ACCESS: &str = "The administrator of this machine decides who may use the device: with a udev rule (kernel/ivshmem/60-vshmem.rules names the group vshmem), or with chmod and chgrp on it";
/// Advice to a user who may not map the resource file.
fn load_the_driver() -> String {
    format!(
        "Without the driver only root may map this device. Load the driver ({}), and it is /dev/vshmem/NAME for whom its mode lets in",
        guide("qemu-libvirt.md")
    )
}

/// What distinguishes it from others. Its devices are those of the driver, and those that no driver
/// has.
pub(crate) const KIND: LinkKind = LinkKind {
    name: "ivshmem",
    is_device: |path| driver::is_device(path) || sysfs::is_resource(path),
    open: |path| Ok(Box::new(Ivshmem::open(path)?)),
    paths: || [driver::devices(), sysfs::resources(Path::new(PCI))].concat(),
};

/// How a device is reached.
#[derive(Debug)]
enum Grade {
    /// Its resource file.
    Sysfs,
    /// The driver, without interrupts.
    Driver,
    /// The driver, with interrupts.
    Interrupts(Arc<DriverDoorbell>),
}

/// A pool behind an ivshmem device.
#[derive(Debug)]
pub struct Ivshmem {
    device: Arc<Device>,
    grade: Grade,
}

impl Ivshmem {
    /// Opens a device.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(path: &Path) -> Result<Self, RegionError> {
        if driver::is_device(path) { Self::open_driver(path) } else { Self::open_resource(path) }
    }

    fn open_driver(path: &Path) -> Result<Self, RegionError> {
        let device = Device::open(path).map_err(|error| error.with_remedy(ASK_FOR_ACCESS))?;
        let info = device
            .with(Info::of)
            .map_err(|errno| RegionError::new(path, "ask the driver about it", errno))?;
        let device = Arc::new(device.with_bytes(info.bytes()));
        let grade = match info.peer() {
            Some(peer) => {
                Grade::Interrupts(Arc::new(DriverDoorbell::new(Arc::clone(&device), peer)))
            }
            None => Grade::Driver,
        };
        Ok(Self { device, grade })
    }

    fn open_resource(path: &Path) -> Result<Self, RegionError> {
        let device =
            Device::open_file(path).map_err(|error| error.with_remedy(load_the_driver()))?;
        if sysfs::is_driven(path) {
            return Err(RegionError::Failed {
                path: path.to_owned(),
                tried: "use it while the driver has it. Use the device in /dev/vshmem instead",
                errno: Errno::BUSY,
            });
        }
        Ok(Self { device: Arc::new(device), grade: Grade::Sysfs })
    }
}

impl Link for Ivshmem {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn grade(&self) -> &'static str {
        match self.grade {
            Grade::Sysfs => "sysfs",
            Grade::Driver => "driver",
            Grade::Interrupts(_) => "interrupts",
        }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn leaves_machine(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::DEVICE
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        match &self.grade {
            Grade::Interrupts(doorbell) => Some(Arc::clone(doorbell) as Arc<dyn Doorbell>),
            Grade::Sysfs | Grade::Driver => None,
        }
    }

    fn doorbell_descriptor(&self) -> Result<Option<OwnedFd>, Errno> {
        if matches!(self.grade, Grade::Sysfs) {
            return Ok(None);
        }
        // An open file of its own: the driver sends the notices to each.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(self.path(), flags, Mode::empty()).map(Some)
    }

    fn register_process(&self) {
        if !matches!(self.grade, Grade::Sysfs) {
            // Without, the agent sees the end a little later.
            let _ = self.device.with(driver::register_process);
        }
    }

    fn ended_processes(&self, descriptor: BorrowedFd<'_>) -> Vec<u32> {
        driver::ended_processes(descriptor.as_fd())
    }
}
