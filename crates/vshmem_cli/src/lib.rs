//! The `vshmem` command: pools, programs on them, and a look at both. One file per verb. The
//! programs of its verbs `lab` and `bench` are in tools/, and share what is public here.

#![forbid(unsafe_code)]

mod account;
pub mod again;
pub mod built;
pub mod choice;
mod command_line;
mod failure;
mod heap;
mod here;
mod huge_page;
pub mod launch;
mod node_bytes;
mod pool;
pub mod program;
mod qmp;
pub mod show;
pub mod size;
pub mod table;
pub mod usage;
mod uuid;
mod verb;
mod visit;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use command_line::{CommandLine, VERSION};
pub use failure::{Failure, Outcome, failed};
pub use pool::make as make_pool;
pub use verb::mpi_env::components as mpi_components;
pub use verb::plan::{read as read_plan, require_this_machine};

/// Reads the command line and carries it out, as all commands of the project do. The exit code that
/// goes with what became of it.
pub fn run<Line: Parser, E: Into<Failure>>(
    carry_out: impl FnOnce(Line) -> Result<ExitCode, E>,
) -> ExitCode {
    start_log();
    match Line::try_parse() {
        Ok(line) => carry_out(line).unwrap_or_else(|failure| failure.into().tell()),
        Err(error) => {
            let words: Vec<_> = std::env::args_os().skip(1).collect();
            usage::tell(&error, &Line::command(), &words)
        }
    }
}

/// Tells what goes on, on standard error, when VSHMEM_LOG asks for it.
fn start_log() {
    let Ok(wanted) = std::env::var("VSHMEM_LOG") else {
        return;
    };
    let Ok(filter) = wanted.parse::<Targets>() else {
        eprintln!("vshmem: VSHMEM_LOG is {wanted:?}: it must be error, warn, info, debug or trace");
        return;
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(show::colours(&std::io::stderr()))
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
}
