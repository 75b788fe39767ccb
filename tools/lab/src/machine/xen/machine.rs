//! The machine itself, whose guest is dom0.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Doing, Error, Result};
use crate::host::directory::{Directory, set_mode};
use crate::host::record::Record;
use crate::machine::plan::{Description, Machine, Plan};
use crate::machine::qemu::acceleration::BARE;
use crate::machine::qemu::kernel::Kernel;
use crate::machine::qemu::needs::{missing_for_emulation, no_kernel, qemu};
use crate::machine::qemu::words::{Words, port, value};
use crate::machine::qemu::{image, ramdisk};
use crate::machine::xen::description::KERNEL_WORDS;
use crate::machine::xen::{description, root};
use crate::model::boot::{BOOT_VARIABLE, LAB_TAG, ROOT_TAG};
use crate::model::names::{DOM0, INIT_VERB};
use crate::model::{Missing, UpOptions};

pub(crate) struct Xen;

/// Names another directory with `xen`, the hypervisor, and `files`, what dom0 needs.
const VARIABLE: &str = "VSHMEM_LAB_XEN";

/// Where `scripts/guest-xen` unpacks it.
const UNPACKED: &str = "/var/lib/vshmem/xen";

/// By this name dom0 is offered Xen's tools and libraries.
const TAG: &str = "xen";

/// What leads dom0 to the host's files and to the network, and what makes it a control domain.
const DOM0_MODULES: [&str; 14] = [
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_net",
    "virtio_rng",
    "virtio_console",
    "bridge",
    "xenfs",
    "xen_privcmd",
    "xen_evtchn",
    "xen_gntdev",
    "xen_gntalloc",
    "xen_netback",
];

/// What the other domains need.
const GUEST_MODULES: [&str; 4] = ["xen_netfront", "xen_evtchn", "xen_gntdev", "xen_gntalloc"];

/// Memory of dom0.
const DOM0_MIB: u32 = 400;
/// The hypervisor's own, and what pools are made of.
const REST_MIB: u32 = 640;
/// Most of a domain's grants: each of these frames holds 512.
const GRANT_FRAMES: u32 = 1024;

fn place() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| UNPACKED.into(), PathBuf::from)
}

impl Machine for Xen {
    fn missing(&self) -> Vec<Missing> {
        let mut missing = missing_for_emulation();
        let place = place();
        for file in ["xen", "files/usr/sbin/xl"] {
            if !place.join(file).exists() {
                missing.push(Missing::new(
                    "Xen, unpacked",
                    format!("there is no {}", place.join(file).display()),
                    format!(
                        "in vshmem's sources `scripts/setup guests xen`, or name a directory that has `xen` and `files` in {VARIABLE}"
                    ),
                ));
                break;
            }
        }
        let wanted = [&DOM0_MODULES[..], &GUEST_MODULES].concat();
        if let Err(found) = Kernel::find(&wanted, None) {
            missing.push(no_kernel(found));
        }
        missing
    }

    fn made_of(&self, record: &Record) -> String {
        match record.cpus {
            1 => "Xen, emulated, 1 CPU".into(),
            cpus => format!("Xen, emulated, {cpus} CPUs"),
        }
    }

    fn interface(&self) -> &'static str {
        "eth0"
    }

    fn boot_time(&self) -> Duration {
        // Emulated, on a busy machine, and one processor for all domains.
        Duration::from_secs(600)
    }

    fn prepare(
        &self,
        record: &mut Record,
        directory: &Directory,
        binary: &Path,
        _options: &UpOptions,
    ) -> Result<()> {
        if record.pool.is_some() {
            return Err(Error::Argument {
                what: "the pool",
                value: "a file of the host's".into(),
                rule: "Xen's domains share memory of Xen's: make the pool in dom0, with `vshmem pool create --xen`",
            });
        }
        if !(1..=MOST_CPUS).contains(&record.cpus) {
            return Err(Error::Argument {
                what: "the number of processors",
                value: record.cpus.to_string(),
                rule: "1 to 8",
            });
        }
        if record.memory_mib < LEAST_MIB {
            return Err(Error::Argument {
                what: "the memory of each guest",
                value: format!("{}M", record.memory_mib),
                rule: "at least 160M: its initial file system is in it twice while it boots",
            });
        }
        if directory.path().to_string_lossy().contains(char::is_whitespace) {
            return Err(Error::Argument {
                what: "the lab's directory",
                value: directory.path().display().to_string(),
                rule: "its name must be without spaces: the boot loader takes what follows one for options",
            });
        }
        let wanted = [&DOM0_MODULES[..], &GUEST_MODULES].concat();
        let found =
            Kernel::find(&wanted, None).map_err(|found| Error::Missing(vec![no_kernel(found)]))?;
        let packed = fs::read(&found.image).doing(|| format!("read {:?}", found.image))?;
        let dom0_ramdisk = ramdisk::make(binary, &found.modules(&DOM0_MODULES)?)?;
        let stage = directory.stage();
        let guest_ramdisk = root::make(&stage, &record.init, &found.modules(&GUEST_MODULES)?)?;
        for (path, contents) in [
            (directory.kernel(), image::unpacked(&packed).unwrap_or(packed)),
            (directory.ramdisk(), dom0_ramdisk),
            (directory.guest_ramdisk(), guest_ramdisk),
        ] {
            fs::write(&path, contents).doing(|| format!("write {path:?}"))?;
            set_mode(&path, 0o644)?;
        }
        Ok(())
    }

    fn stage(&self, guest: u32, directory: &Directory) -> PathBuf {
        if guest == DOM0 { directory.stage() } else { root::STAGE.into() }
    }

    fn layer(&self, guest: u32) -> Option<String> {
        (guest == DOM0).then(|| TAG.into())
    }

    fn describe(&self, plan: &Plan<'_>) -> Result<Description> {
        description::write(plan)
    }

    fn port(&self, plan: &Plan<'_>) -> Option<PathBuf> {
        Some(port(plan))
    }

    /// Those of dom0's machine.
    fn words(&self, plan: &Plan<'_>, _line: Option<i32>) -> Vec<OsString> {
        let record = plan.record;
        let mut words = Words::of(qemu().unwrap_or_else(|| "qemu-system-x86_64".into()));
        words.all(BARE);
        words.pair("-accel", "tcg,thread=multi");
        words.pair("-cpu", "qemu64,+rdrand");
        // With room for a second one, so that the code is atomic towards the machine's devices too.
        words.pair("-smp", format!("{},maxcpus={}", record.cpus, record.cpus.max(2)));
        words.pair("-name", "dom0");
        words.pair("-machine", "pc");
        let memory = DOM0_MIB + REST_MIB + record.count * (record.memory_mib + 8);
        words.pair("-m", format!("{memory}M"));
        words.pair("-kernel", place().join("xen"));
        words.pair(
            "-append",
            format!(
                "com1=115200,8n1 console=com1 loglvl=error guest_loglvl=error no-real-mode bootscrub=0 \
                 dom0_mem={DOM0_MIB}M,max:{DOM0_MIB}M dom0_max_vcpus=1 gnttab_max_frames={GRANT_FRAMES}"
            ),
        );
        let (kernel, ramdisk) = (plan.directory.kernel(), plan.directory.ramdisk());
        let orders = plan.directory.boot(DOM0);
        words.pair(
            "-initrd",
            format!(
                "{} console=hvc0 {KERNEL_WORDS} {BOOT_VARIABLE}={} {INIT_VERB},{}",
                value(&kernel),
                orders.display(),
                value(&ramdisk)
            ),
        );
        words.files(ROOT_TAG, Path::new("/"));
        words.files(TAG, &place().join("files"));
        words.files(LAB_TAG, plan.directory.path());
        words.network(plan);
        words.pair("-device", "virtio-rng-pci");
        words.port(&port(plan));
        words.0
    }
}

/// A domain with less does not boot.
const LEAST_MIB: u32 = 160;

const MOST_CPUS: u32 = 8;
