//! `vshmem lab` and `vshmem bench`: programs of their own, which not every machine needs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::{Outcome, failed};
use crate::launch::beside;

/// The program of `vshmem lab`.
pub const LAB: &str = "vshmem-lab";
/// The program of `vshmem bench`.
pub const BENCH: &str = "vshmem-bench";

/// What stands behind the verb, for its program to read.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Where a program of these is: beside this command, or where an installation leaves it.
pub fn find(program: &str) -> Option<PathBuf> {
    beside(&[program, &format!("../lib/vshmem/{program}")])
}

/// Becomes the program, with this command's own words.
///
/// # Errors
/// It is not there, or cannot be run.
pub fn become_program(program: &str) -> Outcome {
    let Some(path) = find(program) else {
        let verb = program.trim_start_matches("vshmem-");
        return failed(format!(
            "{verb}: its program {program} is neither beside this command nor in ../lib/vshmem. `apt-get install vshmem-tools` installs it; in the source tree `make build` builds it"
        ));
    };
    let mut words = std::env::args_os();
    let own = words.next().unwrap_or_else(|| "vshmem".into());
    let error = Command::new(&path).arg0(own).args(words).exec();
    failed(format!("{}: cannot run it: {error}. `ls -l` shows its mode", path.display()))
}
