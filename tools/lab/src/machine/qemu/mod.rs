//! QEMU: a whole machine with the distribution's own kernel, on the host's files (9p, under an overlay in the guest's
//! memory). The pool is a PCI device (ivshmem) or an nvdimm.

mod acceleration;
pub(super) mod image;
pub(super) mod kernel;
pub(super) mod ramdisk;
mod server;

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Machine, Plan};
use crate::INIT_VERB;
use crate::check::Missing;
use crate::error::{Doing, Error, Result};
use crate::host::directory::{Directory, set_mode};
use crate::host::record::Record;
use crate::host::tool;
use crate::init::BOOT_VARIABLE;
use crate::init::port::NAME as PORT_NAME;
use crate::init::ramdisk::ROOT_TAG;
use crate::options::{Device, UpOptions};
pub(super) use acceleration::BARE;
pub use acceleration::{Acceleration, kvm_boots_guests};
use kernel::Kernel;

pub(crate) struct Qemu;

/// Everything that leads to the host's files and to the network.
const MODULES: [&str; 7] =
    ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net", "virtio_rng", "virtio_console"];
/// And to an nvdimm as a dax device.
const DAX_MODULES: [&str; 4] = ["nfit", "nd_pmem", "device_dax", "dax_pmem"];

/// An nvdimm is put on a boundary of this size, and its pages are of this size.
const DAX_GRANULE: u64 = 2 << 20;

/// Processors of a guest.
const MOST_CPUS: u32 = 64;

pub(super) fn qemu() -> Option<PathBuf> {
    tool::find("qemu-system-x86_64")
}

fn modules(device: Device) -> Vec<&'static str> {
    let dax: &[&str] = if device == Device::Dax { &DAX_MODULES } else { &[] };
    MODULES.iter().chain(dax).copied().collect()
}

/// What this machine lacks for any emulated machine that boots from a ramdisk.
pub(super) fn missing_for_emulation() -> Vec<Missing> {
    let mut missing = Vec::new();
    if cfg!(not(target_arch = "x86_64")) {
        missing.push(Missing::new(
            "an x86-64 host",
            std::env::consts::ARCH,
            "use --guest uml where there is User Mode Linux",
        ));
    }
    if qemu().is_none() {
        missing.push(Missing::new(
            "QEMU (`qemu-system-x86_64`)",
            "not in PATH",
            "apt-get install qemu-system-x86",
        ));
    }
    if tool::find("ldd").is_none() {
        missing.push(Missing::new("the command `ldd`", "not in PATH", "apt-get install libc-bin"));
    }
    missing
}

pub(super) fn no_kernel(found: String) -> Missing {
    Missing::new(
        "a kernel for the guests, with its modules",
        found,
        format!(
            "run scripts/setup guests, or name a directory that has boot/vmlinuz-RELEASE and lib/modules/RELEASE in {}",
            kernel::VARIABLE
        ),
    )
}

impl Machine for Qemu {
    fn missing(&self) -> Vec<Missing> {
        let mut missing = missing_for_emulation();
        if let Err(found) = Kernel::find(&modules(Device::Dax), None) {
            missing.push(no_kernel(found));
        }
        missing
    }

    fn made_of(&self, record: &Record) -> String {
        let how = if record.accelerated { "KVM" } else { "emulated" };
        let cpus = match record.cpus {
            1 => String::new(),
            several => format!(", {several} CPUs each"),
        };
        format!("QEMU, {how}, {}{cpus}", record.device)
    }

    fn interface(&self) -> &'static str {
        "eth0"
    }

    fn boot_time(&self) -> Duration {
        // Emulated, and on a busy machine.
        Duration::from_secs(180)
    }

    fn prepare(
        &self,
        record: &mut Record,
        directory: &Directory,
        binary: &Path,
        options: &UpOptions,
    ) -> Result<()> {
        if let Some(pool) = &record.pool {
            check_size(pool, record.device)?;
        }
        if !(1..=MOST_CPUS).contains(&record.cpus) {
            return Err(Error::Argument {
                what: "the number of processors",
                value: record.cpus.to_string(),
                rule: "1 to 64",
            });
        }
        let wanted = modules(record.device);
        let driver = match options.driver.as_ref().filter(|_| record.device != Device::Dax) {
            Some(driver) => Some(fs::read(driver).doing(|| format!("read the driver {driver:?}"))?),
            None => None,
        };
        let release = driver.as_deref().and_then(kernel::release_of);
        let found = Kernel::find(&wanted, release)
            .map_err(|found| Error::Missing(vec![no_kernel(found)]))?;
        if let Some(built_for) = release.filter(|release| *release != found.release) {
            return Err(Error::Argument {
                what: "the driver",
                value: format!("one that was built for {built_for}"),
                rule: "it must be built for a kernel that is here: make -C kernel/ivshmem KERNEL_RELEASE=/lib/modules/RELEASE/build",
            });
        }
        let mut modules = found.modules(&wanted)?;
        modules.extend(driver.map(|driver| ("vshmem".to_owned(), driver)));
        let (image, archive) = (directory.kernel(), directory.ramdisk());
        let packed = fs::read(&found.image).doing(|| format!("read {:?}", found.image))?;
        fs::write(&image, image::unpacked(&packed).unwrap_or(packed))
            .doing(|| format!("write {image:?}"))?;
        fs::write(&archive, ramdisk::make(binary, &modules)?)
            .doing(|| format!("write {archive:?}"))?;
        set_mode(&image, 0o644)?;
        set_mode(&archive, 0o644)?;
        let program = qemu().unwrap_or_else(|| "qemu-system-x86_64".into());
        let chosen = acceleration::choose(options.acceleration, &program, &image, &archive)?;
        record.accelerated = chosen == Acceleration::Kvm;
        Ok(())
    }

    fn awaited_device(&self, record: &Record) -> Option<PathBuf> {
        // Its drivers look for it in their own time.
        (record.device == Device::Dax && record.pool.is_some()).then(|| "/dev/dax0.0".into())
    }

    fn line(&self, plan: &Plan<'_>) -> Result<Option<OwnedFd>> {
        let server = plan.record.server.as_ref().filter(|_| plan.record.device == Device::Doorbell);
        let Some(server) = server.filter(|_| plan.record.pool.is_some()) else {
            return Ok(None);
        };
        Ok(Some(server::connect(server, plan.directory)?.into()))
    }

    fn port(&self, plan: &Plan<'_>) -> Option<PathBuf> {
        Some(port(plan))
    }

    fn end(&self) {
        server::stop();
    }

    fn words(&self, plan: &Plan<'_>, line: Option<i32>) -> Vec<OsString> {
        let mut words = Words::of(qemu().unwrap_or_else(|| "qemu-system-x86_64".into()));
        words.all(acceleration::BARE);
        words.0.extend(
            acceleration::words(plan.record.accelerated, plan.record.cpus).map(OsString::from),
        );
        words.pair("-name", format!("guest{}", plan.guest));
        let nvdimm = plan.record.device == Device::Dax && plan.record.pool.is_some();
        words.pair("-machine", if nvdimm { "pc,nvdimm=on" } else { "pc" });
        let memory = plan.record.memory_mib;
        let room = if nvdimm { ",slots=2,maxmem=64G" } else { "" };
        words.pair("-m", format!("{memory}M{room}"));
        words.pair("-kernel", plan.directory.kernel());
        words.pair("-initrd", plan.directory.ramdisk());
        let orders = plan.directory.boot(plan.guest);
        words.pair(
            "-append",
            format!("{} {BOOT_VARIABLE}={} {INIT_VERB}", acceleration::APPEND, orders.display()),
        );
        words.files(ROOT_TAG, Path::new("/"));
        words.network(plan);
        words.pair("-device", "virtio-rng-pci");
        if let Some(pool) = &plan.record.pool {
            give(&mut words, plan.record.device, pool, line);
        }
        words.port(&port(plan));
        words.0
    }
}

/// The host's end of a machine's serial port.
pub(super) fn port(plan: &Plan<'_>) -> PathBuf {
    plan.directory.private_of(plan.guest).join("agent.sock")
}

/// The pool's device.
fn give(words: &mut Words, device: Device, pool: &Path, line: Option<i32>) {
    let bytes = fs::metadata(pool).map_or(0, |pool| pool.len());
    let path = value(pool);
    let memory = format!("memory-backend-file,id=pool,share=on,mem-path={path},size={bytes}");
    match device {
        Device::Plain => {
            words.pair("-object", memory);
            words.pair("-device", "ivshmem-plain,memdev=pool");
        }
        Device::Doorbell => {
            words.pair("-chardev", format!("socket,id=server,fd={}", line.unwrap_or(-1)));
            words.pair("-device", "ivshmem-doorbell,chardev=server,vectors=1");
        }
        Device::Dax => {
            words.pair("-object", format!("{memory},align=2M"));
            words.pair("-device", "nvdimm,memdev=pool");
        }
    }
}

fn check_size(pool: &Path, device: Device) -> Result<()> {
    let bytes = fs::metadata(pool).doing(|| format!("look at the pool {pool:?}"))?.len();
    let (fits, rule) = match device {
        Device::Plain | Device::Doorbell => (
            bytes.is_power_of_two() && bytes >= 1 << 20,
            "an ivshmem device needs a pool of a power of two, from 1M: make it with --size 64M, 128M, ...",
        ),
        Device::Dax => (
            bytes > 0 && bytes.is_multiple_of(DAX_GRANULE),
            "an nvdimm needs a pool of a multiple of 2M",
        ),
    };
    if fits {
        return Ok(());
    }
    Err(Error::Argument {
        what: "the size of the pool",
        value: format!("{bytes} bytes ({})", pool.display()),
        rule,
    })
}

/// The address of a guest's network interface.
pub(super) fn hardware_address(guest: u32) -> String {
    format!("02:76:73:68:6d:{guest:02x}")
}

/// A path in a list of options: a comma is written twice.
pub(super) fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A command line under way.
pub(super) struct Words(pub(super) Vec<OsString>);

impl Words {
    pub(super) fn of(program: impl Into<OsString>) -> Self {
        Words(vec![program.into()])
    }

    pub(super) fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }

    /// Offers the files below `path` by that name, for reading.
    pub(super) fn files(&mut self, tag: &str, path: &Path) {
        let path = value(path);
        self.pair(
            "-fsdev",
            format!("local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"),
        );
        self.pair("-device", format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
    }

    /// The lab's network.
    pub(super) fn network(&mut self, plan: &Plan<'_>) {
        self.pair("-netdev", format!("tap,id=net,ifname={},script=no,downscript=no", plan.tap()));
        self.pair(
            "-device",
            format!("virtio-net-pci,netdev=net,romfile=,mac={}", hardware_address(plan.guest)),
        );
    }

    /// The serial port for the agent.
    pub(super) fn port(&mut self, socket: &Path) {
        let path = value(socket);
        self.pair("-chardev", format!("socket,id=agent,path={path},server=on,wait=off"));
        self.pair("-device", "virtio-serial-pci");
        self.pair("-device", format!("virtserialport,chardev=agent,name={PORT_NAME}"));
    }

    pub(super) fn all<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.0.extend(words.into_iter().map(OsString::from));
    }
}
