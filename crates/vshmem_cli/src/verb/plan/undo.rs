//! `vshmem plan undo`: undoes what `apply` did, whether it ended or was killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::apply::{RecordDirectory, is_name, undo_changes};
use crate::failure::{Failure, Outcome, failed};
use crate::show;

/// Undo what `apply` did.
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
    /// Undoes it.
    pub fn carry_out(self) -> Outcome {
        if !is_name(&self.name) {
            return Err(Failure::Usage(format!("{:?} is no name of a plan", self.name)));
        }
        let records = RecordDirectory::open(&self.root)?;
        records.lock()?;
        let Some(applied) = records.read(&self.name)? else {
            return failed(records.unknown(&self.name));
        };
        // An output that cannot be written to must not leave the machine half as it was.
        undo_changes(&records, &self.root, applied, |line| drop(show::line(line)))?;
        show::line(format!("plan {}: undone", self.name))?;
        Ok(ExitCode::SUCCESS)
    }
}
