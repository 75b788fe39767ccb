//! `vshmem lab`: guests on this machine. The work is in `vshmem_lab`; here are its pool and its
//! command line.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use vshmem_lab::{
    Acceleration, Device, ExecRequest, GuestKind, INIT_VERB, KEEPER_VERB, Lab, Listing, Server,
    Streams, UpOptions,
};
use vshmem_session::find;

use crate::failure::{Failure, Outcome, failed};
use crate::table::Table;
use crate::{pool, show, size};

/// Size of the pool that a lab gets when none is named.
const POOL_BYTES: u64 = 64 << 20;
/// Xen's control domain, as a guest.
const DOM0: u32 = 0;
/// Which labs have a pool that was made for them, one file each, with the pool's identity in it.
const OWN_POOLS: &str = "/run/vshmem/lab-pools";

/// Where `vshmem pool serve` listens.
const SERVED: &str = "/run/vshmem/serve";

/// Boot guests on this machine to try a pool across kernels.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabCommand {
    /// The lab's name.
    #[arg(long, global = true, default_value = "lab")]
    name: String,
    #[command(subcommand)]
    verb: LabVerb,
}

const EXAMPLES: &str = "\
Examples:
  vshmem lab up --guest uml -n 2
  vshmem lab up --guest qemu -n 4 --device plain
  vshmem lab up --guest xen -n 2      (then: vshmem lab exec dom0 -- xl list)
  vshmem lab exec 1 -- vshmem run ./producer &
  vshmem lab exec 2 -- vshmem run ./consumer
  vshmem lab kill 1          the power goes off in guest 1
  vshmem lab down";

#[derive(Debug, Subcommand)]
enum LabVerb {
    /// Boot a lab.
    Up(Up),
    /// Run a command in a guest; its exit code is passed on.
    Exec(Exec),
    /// List the labs and their guests.
    Ls(Ls),
    /// Kill a guest at once, as if its power went off.
    Kill(Guest),
    /// Stop a guest where it is: silent, not dead.
    Pause(Guest),
    /// Let a paused guest go on.
    Resume(Guest),
    /// Boot a dead guest again.
    Restart(Guest),
    /// Show the end of a guest's console.
    Console(Guest),
    /// Take the lab down, and its pool if it was made for it.
    Down,
}

#[derive(Debug, Args)]
struct Up {
    /// Kind of guests.
    #[arg(long)]
    guest: Kind,
    /// How many.
    #[arg(short = 'n', default_value_t = 2)]
    count: u32,
    /// The pool that the guests share. Without: one of 64M is made, and removed at `down`. With Xen: the name of the one
    /// that dom0 makes.
    #[arg(long)]
    pool: Option<String>,
    /// Memory of each guest [default: 256M, with QEMU 512M].
    #[arg(long, value_parser = size::parse)]
    mem: Option<u64>,
    /// A disk of that size for each User Mode Linux guest to swap to, in /var/tmp.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    swap: Option<u64>,
    /// How QEMU guests are given the pool [default: doorbell where the driver has been built, else plain].
    #[arg(long)]
    device: Option<DeviceWord>,
    /// Mode of the pool's device in the guests.
    #[arg(long, default_value = "0666", value_parser = mode)]
    device_mode: u32,
    /// The driver for ivshmem devices, built for the guests' kernel, or `none` [default: the one that `make build` leaves].
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// Have the guests' agents notify each other by datagrams over the lab's network, where the pool has no doorbell (docs/guide/datagrams.md).
    #[arg(long)]
    notify: bool,
    /// How QEMU guests run.
    #[arg(long, default_value = "auto")]
    accel: Accel,
    /// Processors of each QEMU guest; with Xen, of the machine that its domains share. A User Mode Linux guest has one.
    #[arg(long, default_value_t = 1)]
    cpus: u32,
}

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
    mode.ok_or_else(|| format!("{text:?} is not a mode: write it as in 0660"))
}

#[derive(Debug, Args)]
struct Exec {
    /// The words are a line for a shell, as those of ssh: what mpirun's plm_rsh_agent needs.
    #[arg(long)]
    shell: bool,
    /// The guest: its number or name.
    guest: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Ls {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Guest {
    /// The guest: its number or name.
    guest: String,
}

/// Carries out one of the verbs that only the lab itself calls, PID 1 of a guest among them. The
/// kernel decides about the words that PID 1 gets, so they are not for the command line's parser.
pub fn hidden(words: impl Iterator<Item = OsString>) -> Option<Outcome> {
    let words: Vec<OsString> = words.collect();
    let done = match words.first()?.to_str()? {
        INIT_VERB => vshmem_lab::guest_init(),
        KEEPER_VERB => vshmem_lab::keeper(&words[1..]),
        _ => return None,
    };
    Some(done.map(|()| ExitCode::SUCCESS).map_err(Failure::from))
}

impl LabCommand {
    /// Does it.
    pub fn carry_out(self) -> Outcome {
        let name = &self.name;
        let with =
            |guest: &Guest, work: fn(&Lab, u32) -> vshmem_lab::Result<()>| -> Result<(), Failure> {
                let lab = Lab::open(name)?;
                Ok(work(&lab, lab.guest_named(&guest.guest)?)?)
            };
        match &self.verb {
            LabVerb::Up(up) => up.carry_out(name)?,
            LabVerb::Exec(exec) => return exec.carry_out(name),
            LabVerb::Ls(ls) => ls.carry_out()?,
            LabVerb::Kill(guest) => with(guest, |lab, guest| lab.kill(guest))?,
            LabVerb::Pause(guest) => with(guest, |lab, guest| lab.pause(guest))?,
            LabVerb::Resume(guest) => with(guest, |lab, guest| lab.resume(guest))?,
            LabVerb::Restart(guest) => restart(name, &guest.guest)?,
            LabVerb::Console(guest) => {
                let lab = Lab::open(name)?;
                show::text(&lab.console(lab.guest_named(&guest.guest)?)?)?;
            }
            LabVerb::Down => down(name)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What the guests are made of.
struct Made {
    guest: GuestKind,
    device: Device,
    driver: Option<PathBuf>,
}

impl Up {
    fn carry_out(&self, name: &str) -> Result<(), Failure> {
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
        if let Ok(lab) = Lab::open(name) {
            return failed(format!(
                "lab {}: it is up already. Take it down with `vshmem lab down`, or give another --name",
                lab.name()
            ));
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
        match guest {
            GuestKind::Uml if qemus => failed(
                "lab up: --device and --driver are for QEMU guests; a User Mode Linux guest has the pool as /dev/mmapper. Leave them out, or use --guest qemu",
            ),
            GuestKind::Qemu | GuestKind::Xen if self.swap.is_some() => failed(
                "lab up: --swap is for User Mode Linux guests. Leave it out, or use --guest uml",
            ),
            GuestKind::Xen if qemus => failed(
                "lab up: --device and --driver are for QEMU guests; Xen's domains get the pool by grants. Leave them out",
            ),
            GuestKind::Xen if self.notify => failed(
                "lab up: --notify is for guests without a doorbell; Xen's domains have event channels. Leave it out",
            ),
            GuestKind::Xen if !emulated => failed("lab up: Xen is run emulated. Leave --accel out"),
            GuestKind::Uml if self.cpus != 1 => failed(
                "lab up: a User Mode Linux guest has one processor. Leave --cpus out, or use --guest qemu",
            ),
            _ => Ok(()),
        }
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
        show::line(format!(
            "lab {}: dom0 and {} guests are up ({}), on pool {pool} of dom0's",
            lab.name(),
            lab.count(),
            lab.made_of()
        ))
    }

    /// The driver that was named, or else the one that was built.
    fn driver(&self) -> Option<PathBuf> {
        match &self.driver {
            Some(word) if word.as_os_str() == "none" => None,
            Some(file) => Some(file.clone()),
            None => built_driver(),
        }
    }

    fn boot(&self, name: &str, pool: &str, made: Made) -> Result<(), Failure> {
        let link = find(pool)?;
        let facts = vshmem_session::identify(link.as_ref())?;
        let used = facts.0.name.iter().position(|&byte| byte == 0).unwrap_or(facts.0.name.len());
        let pool = String::from_utf8_lossy(&facts.0.name[..used]).into_owned();
        let me = std::env::current_exe()
            .map_err(|error| Failure::Failed(format!("cannot find this binary: {error}")))?;
        let notice = ["pool", "evict", "--dead", "--if-there", &pool, "{guest}"].map(str::to_owned);
        let lab = Lab::up(&UpOptions {
            name: name.to_owned(),
            guest: made.guest,
            count: self.count,
            cpus: self.cpus,
            memory_mib: self.memory_mib(made.guest),
            swap_mib: mebibytes(self.swap.unwrap_or(0)),
            pool: Some(link.place().to_owned()),
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
            stage: mpi_components(),
            on_death: Some([vec![me.to_string_lossy().into_owned()], notice.to_vec()].concat()),
            ..UpOptions::default()
        })?;
        show::line(format!(
            "lab {}: {} guests are up ({}), on pool {pool}",
            lab.name(),
            lab.count(),
            lab.made_of()
        ))
    }
}

fn mebibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

/// Boots a guest again. With dom0 Xen's pools are gone.
fn restart(name: &str, guest: &str) -> Result<(), Failure> {
    let lab = Lab::open(name)?;
    let guest = lab.guest_named(guest)?;
    lab.restart(guest)?;
    let listing = lab.list()?;
    match listing.pool_name {
        Some(pool) if listing.guest == GuestKind::Xen && guest == DOM0 => make_in_dom0(&lab, &pool),
        _ => Ok(()),
    }
}

/// Makes the pool of Xen's domains and has dom0 serve it: those that boot later become members, those that end are buried.
fn make_in_dom0(lab: &Lab, pool: &str) -> Result<(), Failure> {
    let size = size::show(POOL_BYTES);
    let serve = "exec setsid vshmem pool serve \"$1\" </dev/null >/run/vshmem/serve.log 2>&1 &";
    let commands: [&[&str]; 2] = [
        &["vshmem", "pool", "create", pool, "--xen", "--size", &size],
        &["sh", "-c", serve, "sh", pool],
    ];
    for words in commands {
        let request = ExecRequest::new(words.iter().copied());
        let quiet =
            Streams { stdin: None, stdout: Box::new(std::io::sink()), ..Streams::inherit()? };
        let code = lab.exec_with(DOM0, &request, quiet)?;
        if code != 0 {
            return failed(format!(
                "lab {}: `{}` in dom0 ended with exit code {code}. It says why above",
                lab.name(),
                words.join(" ")
            ));
        }
    }
    Ok(())
}

impl Exec {
    /// A shell that is given the words as one line.
    fn line(&self) -> Vec<OsString> {
        let line = self.command.join(std::ffi::OsStr::new(" "));
        vec!["sh".into(), "-c".into(), line]
    }

    fn carry_out(&self, name: &str) -> Outcome {
        let request = ExecRequest {
            argv: if self.shell { self.line() } else { self.command.clone() },
            forward_signals: true,
            ..ExecRequest::default()
        };
        let code = if vshmem_lab::in_guest() {
            let number = self.guest.strip_prefix("guest").unwrap_or(&self.guest);
            let Ok(number) = number.parse() else {
                return Err(Failure::Usage(format!(
                    "{:?} is not a guest: give its number, as in `vshmem lab exec 2 -- CMD`",
                    self.guest
                )));
            };
            vshmem_lab::exec_in_sister(number, &request, Streams::inherit()?)?
        } else {
            let lab = Lab::open(name)?;
            lab.exec(lab.guest_named(&self.guest)?, &request)?
        };
        Ok(ExitCode::from(code as u8))
    }
}

impl Ls {
    fn carry_out(&self) -> Result<(), Failure> {
        let labs = Lab::list_all()?;
        if self.json {
            return show::json(&labs);
        }
        let mut table = Table::new(
            "",
            &["LAB", "MADE-OF", "POOL", "GUEST", "DOMAIN", "STATE", "ADDRESS", "UID", "WHY"],
        );
        for lab in &labs {
            add(&mut table, lab);
        }
        show::text(&table.to_string())
    }
}

fn add(table: &mut Table, lab: &Listing) {
    let first = [lab.name.clone(), lab.made_of.clone(), lab.pool_name.clone().unwrap_or_default()];
    if lab.guests.is_empty() {
        let state = if lab.keeper.is_some() { "no answer" } else { "keeper died" };
        let why = "`vshmem lab down` clears up".to_owned();
        let rest = [String::new(), String::new(), state.into(), String::new(), String::new(), why];
        table.row([&first[..], &rest[..]].concat());
    }
    for guest in &lab.guests {
        let rest = [
            guest.guest.to_string(),
            guest.domain.clone(),
            guest.state.to_string(),
            guest.address.to_string(),
            guest.uid.to_string(),
            guest.how.clone(),
        ];
        table.row([&first[..], &rest[..]].concat());
    }
}

fn down(name: &str) -> Result<(), Failure> {
    let was_up = Lab::down_named(name)?;
    let had_pool = OwnPool::of(name).remove()?;
    if was_up || had_pool {
        return show::line(format!("lab {name}: down"));
    }
    failed(format!("lab {name}: there is none of that name. `vshmem lab ls` shows those there are"))
}

/// The driver where a build or an installation leaves it.
pub fn built_driver() -> Option<PathBuf> {
    let me = std::env::current_exe().ok()?.canonicalize().ok()?;
    let beside = me.parent()?;
    let places = [
        "../../build/ivshmem/module/vshmem.ko",
        "../../kernel/ivshmem/build/module/vshmem.ko",
        "../lib/vshmem/vshmem.ko",
    ];
    places.iter().find_map(|place| beside.join(place).canonicalize().ok())
}

/// The components of Open MPI, if they are built: guests find them beside `vshmem`.
pub fn mpi_components() -> Vec<PathBuf> {
    let kinds = ["btl", "mpool", "coll", "osc", "rtc"];
    let directory = super::mpi_env::components(None).ok();
    let files = directory
        .iter()
        .flat_map(|place| kinds.map(|kind| place.join(format!("mca_{kind}_vshmem.so"))));
    files.filter(|file| file.is_file()).collect()
}

/// A pool that was made for a lab and goes with it.
struct OwnPool {
    name: String,
    note: PathBuf,
}

impl OwnPool {
    fn of(lab: &str) -> Self {
        Self { name: lab.to_owned(), note: PathBuf::from(OWN_POOLS).join(lab) }
    }

    fn identity(&self) -> Option<String> {
        let link = find(&self.name).ok()?;
        let (superblock, _) = vshmem_session::identify(link.as_ref()).ok()?;
        Some(superblock.uuid.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn make(&self, labelled: bool) -> Result<String, Failure> {
        // Left by a lab that ended without `down`.
        self.remove()?;
        pool::make(&self.name, POOL_BYTES, labelled)?;
        let write = || {
            fs::create_dir_all(OWN_POOLS)?;
            fs::write(&self.note, self.identity().unwrap_or_default())
        };
        if let Err(error) = write() {
            vshmem_session::remove(&self.name)?;
            return failed(format!(
                "{}: cannot note that the pool is the lab's: {error}",
                self.note.display()
            ));
        }
        Ok(self.name.clone())
    }

    /// Removes it if it is the one that was made here; true if so.
    fn remove(&self) -> Result<bool, Failure> {
        let Ok(noted) = fs::read_to_string(&self.note) else {
            return Ok(false);
        };
        let ours = self.identity().is_some_and(|identity| identity == noted);
        if ours {
            vshmem_session::remove(&self.name)?;
        }
        let _ = fs::remove_file(&self.note);
        Ok(ours)
    }
}
