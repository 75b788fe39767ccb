//! The command line.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use vshmem_cli::show;
use vshmem_lab::{GuestKind, Lab};

use crate::exec::Exec;
use crate::failure::{Failure, Outcome};
use crate::ls::{Ls, no_such_lab};
use crate::own_pool::OwnPool;
use crate::up::Up;
use crate::xen::{DOM0, make_in_dom0};

/// The words of `vshmem lab ...`, as `vshmem` passes them on.
#[derive(Debug, Parser)]
#[command(name = "vshmem", version = vshmem_cli::VERSION, propagate_version = true)]
pub struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Boot guests on this machine to try a pool across kernels.
    Lab(LabCommand),
}

impl CommandLine {
    /// Does it.
    ///
    /// # Errors
    /// What the verb says in a sentence.
    pub fn carry_out(self) -> Outcome {
        let Verb::Lab(lab) = self.verb;
        lab.carry_out()
    }
}

/// Boot guests on this machine to try a pool across kernels.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct LabCommand {
    /// The lab's name [default: lab; `ls` lists all].
    #[arg(long, global = true)]
    name: Option<String>,
    #[command(subcommand)]
    verb: LabVerb,
}

const EXAMPLES: &str = "\
Examples:
  vshmem lab up --guest uml -n 2
  vshmem lab up --guest qemu -n 4 --device plain
  vshmem lab up --guest xen -n 2      (then: vshmem lab exec dom0 -- xl list)
  vshmem lab exec 1 -- vshmem run $PWD/producer &
  vshmem lab exec 2 -- vshmem run $PWD/consumer
  vshmem lab kill 1          kill guest 1 at once
  vshmem lab down";

/// The lab that is meant when none is named.
const USUAL: &str = "lab";

#[derive(Debug, Subcommand)]
enum LabVerb {
    /// Boot a lab.
    Up(Up),
    /// Run a command in a guest; its exit code is passed on.
    Exec(Exec),
    /// List the labs and their guests.
    Ls(Ls),
    /// Kill a guest at once, as if its power went off.
    #[command(after_help = "Examples:\n  vshmem lab kill 1")]
    Kill(Guest),
    /// Stop a guest where it is: silent, not dead.
    #[command(after_help = "Examples:\n  vshmem lab pause 1")]
    Pause(Guest),
    /// Let a paused guest go on.
    #[command(after_help = "Examples:\n  vshmem lab resume 1")]
    Resume(Guest),
    /// Boot a dead guest again.
    #[command(after_help = "Examples:\n  vshmem lab restart 1")]
    Restart(Guest),
    /// Show the end of a guest's console.
    #[command(after_help = "Examples:\n  vshmem lab console 1")]
    Console(Guest),
    /// Take the lab down, and its pool if it was made for it.
    Down,
    /// What this machine lacks for guests, as JSON; `vshmem doctor` asks.
    #[command(hide = true)]
    Check,
}

#[derive(Debug, Args)]
struct Guest {
    /// The guest: its number or name.
    guest: String,
}

impl LabCommand {
    fn carry_out(self) -> Outcome {
        let name = self.name.as_deref().unwrap_or(USUAL);
        match &self.verb {
            LabVerb::Up(up) => up.carry_out(name)?,
            LabVerb::Exec(exec) => return exec.carry_out(name),
            LabVerb::Ls(ls) => ls.carry_out(self.name.as_deref())?,
            LabVerb::Kill(guest) => change(name, guest, Lab::kill, "killed")?,
            LabVerb::Pause(guest) => change(name, guest, Lab::pause, "paused")?,
            LabVerb::Resume(guest) => change(name, guest, Lab::resume, "resumed")?,
            LabVerb::Restart(guest) => change(name, guest, restart, "booted again")?,
            LabVerb::Console(guest) => {
                let lab = Lab::open(name)?;
                show::text(&lab.console(lab.guest_named(&guest.guest)?)?)?;
            }
            LabVerb::Down => down(name)?,
            LabVerb::Check => {
                let kinds = [GuestKind::Uml, GuestKind::Qemu].map(Lab::check);
                show::json(&kinds)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Changes a guest, and says what was done to which.
fn change<E>(
    name: &str,
    guest: &Guest,
    work: fn(&Lab, u32) -> Result<(), E>,
    done: &str,
) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let lab = Lab::open(name)?;
    let guest = lab.guest_named(&guest.guest)?;
    work(&lab, guest)?;
    let shown = if guest == DOM0 { "dom0".to_owned() } else { format!("guest{guest}") };
    Ok(show::line(format!("lab {name}: {shown} is {done}"))?)
}

/// Boots a guest again. With dom0 Xen's pools are gone.
fn restart(lab: &Lab, guest: u32) -> Result<(), Failure> {
    lab.restart(guest)?;
    let listing = lab.list()?;
    match listing.pool_name {
        Some(pool) if listing.guest == GuestKind::Xen && guest == DOM0 => make_in_dom0(lab, &pool),
        _ => Ok(()),
    }
}

fn down(name: &str) -> Result<(), Failure> {
    let was_up = Lab::down_named(name)?;
    let had_pool = OwnPool::of(name).remove()?;
    if was_up || had_pool {
        return Ok(show::line(format!("lab {name}: down"))?);
    }
    no_such_lab(name)
}
