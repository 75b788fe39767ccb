//! The machine itself: what it boots from, and its command line.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Doing, Error, Result};
use crate::host::directory::{Directory, set_mode};
use crate::host::record::Record;
use crate::machine::plan::{Machine, Plan};
use crate::machine::qemu::kernel::Kernel;
use crate::machine::qemu::needs::{missing_for_emulation, no_kernel, qemu};
use crate::machine::qemu::words::{Words, port, value};
use crate::machine::qemu::{acceleration, image, kernel, ramdisk, server};
use crate::model::boot::{BOOT_VARIABLE, ROOT_TAG};
use crate::model::names::INIT_VERB;
use crate::model::{Acceleration, Device, Missing, UpOptions};

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

fn modules(device: Device) -> Vec<&'static str> {
    let dax: &[&str] = if device == Device::Dax { &DAX_MODULES } else { &[] };
    MODULES.iter().chain(dax).copied().collect()
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
        let more = more_words(MORE_FOR_KERNEL);
        words.pair(
            "-append",
            format!(
                "{} {} {BOOT_VARIABLE}={} {INIT_VERB}",
                acceleration::APPEND,
                more.join(" "),
                orders.display()
            ),
        );
        words.files(ROOT_TAG, Path::new("/"));
        words.network(plan);
        words.pair("-device", "virtio-rng-pci");
        if let Some(pool) = &plan.record.pool {
            give(&mut words, plan.record.device, pool, line);
        }
        words.port(&port(plan));
        words.0.extend(more_words(MORE_FOR_QEMU).into_iter().map(OsString::from));
        words.0
    }
}

/// More words for QEMU and for the guests' kernel, for tests of what the lab itself never does:
/// the kernel's checks of its memory, or a machine that loses atomic operations.
const MORE_FOR_QEMU: &str = "VSHMEM_LAB_QEMU";
const MORE_FOR_KERNEL: &str = "VSHMEM_LAB_APPEND";

fn more_words(variable: &str) -> Vec<String> {
    let words = std::env::var(variable).unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
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
