//! `vshmem lab`: guests on this machine. The work is in `vshmem_lab`; here are its pool and its
//! command line.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use vshmem_lab::{
    ExecRequest, GuestKind, INIT_VERB, KEEPER_VERB, Lab, Listing, Streams, UpOptions,
};
use vshmem_session::find;

use crate::failure::{Failure, Outcome, failed};
use crate::table::Table;
use crate::{pool, show, size};

/// Size of the pool that a lab gets when none is named.
const POOL_BYTES: u64 = 64 << 20;
/// Which labs have a pool that was made for them, one file each, with the pool's identity in it.
const OWN_POOLS: &str = "/run/vshmem/lab-pools";

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
    /// The pool that the guests share. Without: one of 64M is made, and removed at `down`.
    #[arg(long)]
    pool: Option<String>,
    /// Memory of each guest.
    #[arg(long, default_value = "256M", value_parser = size::parse)]
    mem: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Uml,
    Qemu,
    Xen,
}

#[derive(Debug, Args)]
struct Exec {
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
            LabVerb::Restart(guest) => with(guest, |lab, guest| lab.restart(guest))?,
            LabVerb::Console(guest) => {
                let lab = Lab::open(name)?;
                show::text(&lab.console(lab.guest_named(&guest.guest)?)?)?;
            }
            LabVerb::Down => down(name)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Up {
    fn carry_out(&self, name: &str) -> Result<(), Failure> {
        if !matches!(self.guest, Kind::Uml) {
            return failed(
                "lab up: this release boots User Mode Linux guests only. Use --guest uml",
            );
        }
        if let Ok(lab) = Lab::open(name) {
            return failed(format!(
                "lab {}: it is up already. Take it down with `vshmem lab down`, or give another --name",
                lab.name()
            ));
        }
        let own = OwnPool::of(name);
        let pool = match &self.pool {
            Some(pool) => pool.clone(),
            None => own.make()?,
        };
        let done = self.boot(name, &pool);
        if done.is_err() && self.pool.is_none() {
            own.remove()?;
        }
        done
    }

    fn boot(&self, name: &str, pool: &str) -> Result<(), Failure> {
        let link = find(pool)?;
        let facts = vshmem_session::identify(link.as_ref())?;
        let used = facts.0.name.iter().position(|&byte| byte == 0).unwrap_or(facts.0.name.len());
        let pool = String::from_utf8_lossy(&facts.0.name[..used]).into_owned();
        let me = std::env::current_exe()
            .map_err(|error| Failure::Failed(format!("cannot find this binary: {error}")))?;
        let notice = ["pool", "evict", "--dead", "--if-there", &pool, "{guest}"].map(str::to_owned);
        let lab = Lab::up(&UpOptions {
            name: name.to_owned(),
            guest: GuestKind::Uml,
            count: self.count,
            memory_mib: u32::try_from(self.mem >> 20).unwrap_or(u32::MAX),
            pool: Some(link.place().to_owned()),
            pool_name: Some(pool.clone()),
            on_death: Some([vec![me.to_string_lossy().into_owned()], notice.to_vec()].concat()),
            ..UpOptions::default()
        })?;
        show::line(format!("lab {}: {} guests are up, on pool {pool}", lab.name(), lab.count()))
    }
}

impl Exec {
    fn carry_out(&self, name: &str) -> Outcome {
        let request = ExecRequest {
            argv: self.command.clone(),
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
            &["LAB", "KIND", "POOL", "GUEST", "DOMAIN", "STATE", "ADDRESS", "UID", "WHY"],
        );
        for lab in &labs {
            add(&mut table, lab);
        }
        show::text(&table.to_string())
    }
}

fn add(table: &mut Table, lab: &Listing) {
    let first =
        [lab.name.clone(), lab.guest.to_string(), lab.pool_name.clone().unwrap_or_default()];
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

    fn make(&self) -> Result<String, Failure> {
        // Left by a lab that ended without `down`.
        self.remove()?;
        pool::make(&self.name, POOL_BYTES)?;
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
