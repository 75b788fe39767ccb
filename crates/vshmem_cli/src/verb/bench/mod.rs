//! `vshmem bench`: measurements beside rivals. The work is in `vshmem_bench`; here are its command
//! lines and its tables.

mod compare;
mod mpi;
mod pingpong;
mod report;
mod run;
mod sysv;
mod terminal;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vshmem_bench::report::Rows;

use crate::failure::{Failure, Outcome};
use crate::table::Table;

/// Measure vshmem beside its rivals, interleaved in one run.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct Bench {
    /// Everything in some two minutes, from nothing to a report: `run` with `--quick`, in a new
    /// directory `vshmem-bench-DATE` here.
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    what: Option<What>,
}

/// What is measured, or done with what was.
#[derive(Debug, Subcommand)]
enum What {
    /// Everything, by environment and model, into a directory: begun or gone on with, and its report.
    Run(run::Run),
    /// The report of such a directory again: one HTML page, tables, figures.
    Report(report::Report),
    /// Two such directories beside each other.
    Compare(compare::Compare),
    /// Round trips: shared memory in one kernel, across two guests, TCP and UDP between them.
    Pingpong(pingpong::Pingpong),
    /// MPI: stock Open MPI through a pool, its own shared memory, TCP.
    Mpi(mpi::Mpi),
    /// System V calls: the kernel's and a pool's.
    Sysv(sysv::Sysv),
}

impl Bench {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        match self.what {
            Some(What::Run(run)) => run.carry_out(),
            Some(What::Report(report)) => report.carry_out(),
            Some(What::Compare(compare)) => compare.carry_out(),
            Some(What::Mpi(mpi)) => mpi.carry_out(),
            Some(What::Pingpong(pingpong)) => pingpong.carry_out(),
            Some(What::Sysv(sysv)) => sysv.carry_out(),
            None => run::Run::quick().carry_out(),
        }
    }
}

fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this binary: {error}")))
}

fn table(rows: Rows) -> Table {
    let columns: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&rows.title, &columns);
    for row in rows.rows {
        table.row(row);
    }
    table
}
