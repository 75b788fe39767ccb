//! `vshmem lab up`: boots a lab.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use vshmem_lab::{Acceleration, Device, GuestKind, Lab, Missing, Server, UpOptions};
use vshmem_session::find;

use crate::failure::{Failure, failed};
use crate::own_pool::OwnPool;
use crate::xen::make_in_dom0;
use vshmem_cli::again::{Left, again};
use vshmem_cli::{built, launch, show, size};

/// Where `vshmem pool serve` listens.
const SERVED: &str = "/run/vshmem/serve";

/// Boot a lab.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Kind of guests.
    #[arg(long)]
    guest: Kind,
    /// How many.
    #[arg(short = 'n', default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// The pool that the guests share. Without: one of 64M is made, and removed at `down`. With
    /// Xen: the name of the one that dom0 makes.
    #[arg(long)]
    pool: Option<String>,
    /// Memory of each guest [default: 256M, with QEMU 512M].
    #[arg(long, value_parser = size::parse)]
    mem: Option<u64>,
    /// A disk of that size for each User Mode Linux guest to swap to, in /var/tmp.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    swap: Option<u64>,
    /// How QEMU guests are given the pool [default: doorbell where the driver has been built, else
    /// plain].
    #[arg(long)]
    device: Option<DeviceWord>,
    /// Mode of the pool's device in the guests.
    #[arg(long, default_value = "0666", value_parser = mode)]
    device_mode: u32,
    /// The driver for ivshmem devices, built for the guests' kernel, or `none` [default: the one
    /// that `make build` leaves].
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// Have the guests' agents notify each other by datagrams over the lab's network, where the
    /// pool has no doorbell (docs/guide/datagrams.md).
    #[arg(long)]
    notify: bool,
    /// How QEMU guests run.
    #[arg(long, default_value = "auto")]
    accel: Accel,
    /// Processors of each QEMU guest; with Xen, of the machine that its domains share. A User Mode
    /// Linux guest has one.
    #[arg(long, default_value_t = 1)]
    cpus: u32,
}

const EXAMPLES: &str = "\
Examples:
  vshmem lab up --guest uml -n 2
  vshmem lab up --guest uml --mem 512M --pool job7
  vshmem lab up --guest qemu -n 2 --device plain --device-mode 0660";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Uml,
    Qemu,
    Xen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceWord {
    /// ivshmem-plain: memory alone.
    Plain,
    /// ivshmem-doorbell: interrupts as well; `vshmem pool serve` is started if it does not run.
    Doorbell,
    /// nvdimm: /dev/dax0.0, without a driver of ours.
    Dax,
}

impl From<DeviceWord> for Device {
    fn from(word: DeviceWord) -> Self {
        match word {
            DeviceWord::Plain => Device::Plain,
            DeviceWord::Doorbell => Device::Doorbell,
            DeviceWord::Dax => Device::Dax,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Accel {
    /// KVM where a guest really boots under it, else emulation.
    Auto,
    /// KVM.
    Kvm,
    /// Emulation.
    Tcg,
}

impl From<Accel> for Acceleration {
    fn from(word: Accel) -> Self {
        match word {
            Accel::Auto => Acceleration::Auto,
            Accel::Kvm => Acceleration::Kvm,
            Accel::Tcg => Acceleration::Tcg,
        }
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is not a mode: write it in octal, as 0660"))
}

/// What the guests are made of.
struct Made {
    guest: GuestKind,
    device: Device,
    driver: Option<PathBuf>,
}

impl Up {
    /// Boots it.
    pub fn carry_out(&self, name: &str) -> Result<(), Failure> {
        let guest = match self.guest {
            Kind::Uml => GuestKind::Uml,
            Kind::Qemu => GuestKind::Qemu,
            Kind::Xen => GuestKind::Xen,
        };
        self.check_options(guest)?;
        let driver = self.driver();
        let device = match self.device {
            Some(device) => device.into(),
            None if driver.is_some() => Device::Doorbell,
            None => Device::Plain,
        };
        match Lab::open(name) {
            Err(error @ vshmem_lab::Error::Argument { .. }) => return Err(error.into()),
            Err(_) => {}
            Ok(lab) => {
                return failed(format!(
                    "lab {0}: it is up already. `vshmem lab --name {0} down` takes it down; or give another --name",
                    lab.name()
                ));
            }
        }
        // Before a pool is made for it.
        match Lab::check(guest) {
            missing if missing.is_empty() => {}
            missing => {
                let as_given = |mut one: Missing| {
                    if one.remedy.starts_with("`sudo vshmem lab up ") {
                        one.remedy = format!("`sudo {}`", again(&[], &[]));
                    }
                    one
                };
                let missing = missing.into_iter().map(as_given).collect();
                return Err(vshmem_lab::Error::Missing(missing).into());
            }
        }
        if guest == GuestKind::Xen {
            return self.boot_xen(name);
        }
        let own = OwnPool::of(name);
        let pool = match &self.pool {
            Some(pool) => pool.clone(),
            None => own.make(device == Device::Dax)?,
        };
        let made = Made { guest, device, driver };
        let done = self.boot(name, &pool, made);
        if done.is_err() && self.pool.is_none() {
            own.remove()?;
        }
        done
    }

    /// Refuses options that mean nothing to guests of that kind.
    fn check_options(&self, guest: GuestKind) -> Result<(), Failure> {
        let qemus = self.device.is_some() || self.driver.is_some();
        let emulated = matches!(self.accel, Accel::Auto | Accel::Tcg);
        let (wrong, left): (_, &[Left]) = match guest {
            GuestKind::Uml if qemus => (
                "--device and --driver are for QEMU guests; a User Mode Linux guest has the pool as /dev/mmapper",
                &[("--device", true), ("--driver", true)],
            ),
            GuestKind::Qemu | GuestKind::Xen if self.swap.is_some() => {
                ("--swap is for User Mode Linux guests", &[("--swap", true)])
            }
            GuestKind::Xen if qemus => (
                "--device and --driver are for QEMU guests; Xen's domains get the pool by grants",
                &[("--device", true), ("--driver", true)],
            ),
            GuestKind::Xen if self.notify => (
                "--notify is for guests without a doorbell; Xen's domains have event channels",
                &[("--notify", false)],
            ),
            GuestKind::Xen if !emulated => ("Xen is run emulated", &[("--accel", true)]),
            GuestKind::Uml if self.cpus != 1 => {
                ("a User Mode Linux guest has one processor", &[("--cpus", true)])
            }
            _ => return Ok(()),
        };
        let other = match guest {
            GuestKind::Uml => Some("qemu"),
            GuestKind::Qemu | GuestKind::Xen if self.swap.is_some() => Some("uml"),
            _ => None,
        };
        let without = again(left, &[]);
        let or = other.map(|kind| {
            format!(", or take other guests: `{}`", again(&[("--guest", true)], &["--guest", kind]))
        });
        let or = or.unwrap_or_default();
        Err(Failure::usage(format!("lab up: {wrong}. Without that: `{without}`{or}")))
    }

    fn memory_mib(&self, guest: GuestKind) -> u32 {
        let bytes = self.mem.unwrap_or(match guest {
            GuestKind::Qemu => 512 << 20,
            _ => 256 << 20,
        });
        mebibytes(bytes)
    }

    /// Xen's domains. Their pool lives among them, made by dom0.
    fn boot_xen(&self, name: &str) -> Result<(), Failure> {
        let pool = self.pool.as_deref().unwrap_or(name);
        let lab = Lab::up(&UpOptions {
            binary_dir: beside(&launch::vshmem()?),
            name: name.to_owned(),
            guest: GuestKind::Xen,
            count: self.count,
            cpus: self.cpus,
            memory_mib: self.memory_mib(GuestKind::Xen),
            pool_name: Some(pool.to_owned()),
            device_mode: self.device_mode,
            ..UpOptions::default()
        })?;
        if let Err(failure) = make_in_dom0(&lab, pool) {
            lab.down()?;
            return Err(failure);
        }
        Ok(show::line(format!(
            "lab {}: dom0 and {} guests are up ({}), on pool {pool} of dom0's",
            lab.name(),
            lab.count(),
            lab.made_of()
        ))?)
    }

    /// The driver that was named, or else the one that was built.
    fn driver(&self) -> Option<PathBuf> {
        match &self.driver {
            Some(word) if word.as_os_str() == "none" => None,
            Some(file) => Some(file.clone()),
            None => built::driver(),
        }
    }

    fn boot(&self, name: &str, pool: &str, made: Made) -> Result<(), Failure> {
        let link = find(pool)?;
        let facts = vshmem_session::identify(link.as_ref())?;
        let used = facts.0.name.iter().position(|&byte| byte == 0).unwrap_or(facts.0.name.len());
        let pool = String::from_utf8_lossy(&facts.0.name[..used]).into_owned();
        let me = launch::vshmem()?;
        let notice = ["pool", "evict", "--dead", "--if-there", &pool, "{guest}"].map(str::to_owned);
        let lab = Lab::up(&UpOptions {
            binary_dir: beside(&me),
            name: name.to_owned(),
            guest: made.guest,
            count: self.count,
            cpus: self.cpus,
            memory_mib: self.memory_mib(made.guest),
            swap_mib: mebibytes(self.swap.unwrap_or(0)),
            pool: Some(link.path().to_owned()),
            pool_name: Some(pool.clone()),
            device: made.device,
            device_mode: self.device_mode,
            driver: made.driver,
            notify: self.notify,
            acceleration: self.accel.into(),
            server: Some(Server {
                socket: PathBuf::from(SERVED).join(format!("{pool}.sock")),
                command: [&me.to_string_lossy(), "pool", "serve", &pool]
                    .map(str::to_owned)
                    .to_vec(),
            }),
            stage: built::launch_components(),
            on_death: Some([vec![me.to_string_lossy().into_owned()], notice.to_vec()].concat()),
            ..UpOptions::default()
        })?;
        Ok(show::line(format!(
            "lab {}: {} guests are up ({}), on pool {pool}",
            lab.name(),
            lab.count(),
            lab.made_of()
        ))?)
    }
}

/// Where guests' copies of the command and its libraries are taken from: an installation has this
/// program elsewhere.
fn beside(command: &Path) -> PathBuf {
    command.parent().unwrap_or(Path::new(".")).to_owned()
}

fn mebibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}
