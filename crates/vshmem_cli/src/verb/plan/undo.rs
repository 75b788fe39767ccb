//! `vshmem plan undo`: what `apply` did is taken back, whether it ended or was killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::apply::{Place, is_name, revert};
use crate::failure::{Failure, Outcome, failed};
use crate::show;

/// Take back what `apply` did.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Undo {
    /// The applied plan.
    #[arg(default_value = "plan")]
    name: String,
    /// Another directory than / for /proc, /sys and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  vshmem plan undo

Guests that still run are ended as if the power was cut: shut them down first. Then the pools are
removed, and each setting of the host is what it was. After `apply` was killed, undo what it had
done in the same way.";

impl Undo {
    /// Takes it back.
    pub fn carry_out(self) -> Outcome {
        if !is_name(&self.name) {
            return Err(Failure::Usage(format!("{:?} is no name of a plan", self.name)));
        }
        let place = Place::open(&self.root)?;
        place.lock()?;
        let Some(state) = place.read(&self.name)? else {
            return failed(place.unknown(&self.name));
        };
        // An output that cannot be written to must not leave the machine half as it was.
        revert(&place, &self.root, state, |line| drop(show::line(line)))?;
        show::line(format!("plan {}: undone", self.name))?;
        Ok(ExitCode::SUCCESS)
    }
}
