//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::failure::Outcome;
use crate::{compare, guard, mpi, pingpong, report, run, sysv};

/// The words of `vshmem bench ...`, as `vshmem` passes them on.
#[derive(Debug, Parser)]
#[command(name = "vshmem", version = vshmem_cli::VERSION, propagate_version = true)]
pub struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure vshmem beside its rivals.
    Bench(Bench),
}

impl CommandLine {
    /// Does it.
    ///
    /// # Errors
    /// What the verb says in a sentence.
    pub fn carry_out(self) -> Outcome {
        let Verb::Bench(bench) = self.verb;
        bench.carry_out()
    }
}

/// Measure vshmem beside its rivals, interleaved in one run.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  vshmem bench --quick\n  vshmem bench sysv --only semop,msg-8")]
struct Bench {
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
    /// Run all measurements, by environment and model, into a new directory or one to resume, and
    /// write the report.
    Run(run::Run),
    /// The report of such a directory again: one HTML page, tables, figures.
    Report(report::Report),
    /// Two such directories, case by case.
    Compare(compare::Compare),
    /// This build and another one, for some 45 s: which calls have become slower.
    Guard(guard::Guard),
    /// Round trips: shared memory in one kernel, across two guests, TCP and UDP between them.
    Pingpong(pingpong::Pingpong),
    /// MPI: stock Open MPI through a pool, its own shared memory, TCP.
    Mpi(mpi::Mpi),
    /// System V calls: the kernel's and a pool's.
    Sysv(sysv::Sysv),
}

impl Bench {
    fn carry_out(self) -> Outcome {
        match self.what {
            Some(What::Run(run)) => run.carry_out(),
            Some(What::Report(report)) => report.carry_out(),
            Some(What::Compare(compare)) => compare.carry_out(),
            Some(What::Guard(guard)) => guard.carry_out(),
            Some(What::Mpi(mpi)) => mpi.carry_out(),
            Some(What::Pingpong(pingpong)) => pingpong.carry_out(),
            Some(What::Sysv(sysv)) => sysv.carry_out(),
            None => run::Run::quick().carry_out(),
        }
    }
}
