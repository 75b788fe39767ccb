//! The `vshmem` command: pools, programs on them, and a look at both. One file per verb.

#![forbid(unsafe_code)]

mod account;
mod again;
mod choice;
mod failure;
mod here;
mod huge_page;
mod launch;
mod node_bytes;
mod pool;
mod program;
mod show;
mod size;
mod table;
mod usage;
mod uuid;
mod verb;
mod visit;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use failure::Outcome;

/// System V IPC across co-located virtual machines, for unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "vshmem", version = VERSION, propagate_version = true, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

/// The release, and the commit that it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("VSHMEM_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  vshmem run ./producer                     a program on your own private pool
  vshmem pool create job7 --size 1G         a pool that several programs and guests share
  vshmem run --pool job7 -- ./consumer -n 3
  vshmem ls --pool job7                     what lies in it, and who uses it
  vshmem top --pool job7                    what goes on in it
  vshmem doctor                             what this machine lacks, and what to do

Environment: VSHMEM_POOL names the pool when no --pool is given; VSHMEM_LOG=info or debug says more;
VSHMEM_SPIN=0 makes waiting threads sleep at once instead of spinning first; VSHMEM_NODE names the
host's memory node that a guest lies on.
Exit codes: 0 done, 1 failed, 2 usage. `run` passes on the program's own; 127: there is no such
program, 126: it cannot be run, or not on a pool.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run an unmodified program on a pool.
    Run(verb::run::Run),
    /// Make, list, check and remove pools.
    #[command(subcommand)]
    Pool(pool::PoolVerb),
    /// Show what is in a pool and who uses it (as ipcs does).
    Ls(verb::ls::Ls),
    /// Show what goes on in a pool: operations, messages, waits, and who waits for whom.
    Top(verb::top::Top),
    /// Write what has been counted in pools for Prometheus.
    Metrics(verb::metrics::Metrics),
    /// Remove objects from a pool (as ipcrm does).
    Rm(verb::rm::Rm),
    /// Boot guests on this machine to try a pool across kernels.
    Lab(verb::lab::LabCommand),
    /// Measure vshmem beside its rivals.
    Bench(verb::bench::Bench),
    /// Cut a host into guests along its sockets, nodes or caches.
    Plan(verb::plan::Plan),
    /// Print the environment in which Open MPI's mpirun goes through a pool.
    MpiEnv(verb::mpi_env::MpiEnv),
    /// Print the environment in which MPI and PGAS libraries over libfabric go through a pool.
    FabricEnv(verb::fabric_env::FabricEnv),
    /// Say what this machine has and lacks, with a remedy for each.
    Doctor(verb::doctor::Doctor),
    /// Start a domain's agent for a pool; `run` does it by itself.
    Agent(verb::agent::Agent),
    /// Write the man pages and the completions; packages do.
    #[command(hide = true)]
    Manual(verb::manual::Manual),
}

impl Verb {
    fn carry_out(self) -> Outcome {
        match self {
            Self::Run(run) => run.carry_out(),
            Self::Pool(pool) => pool.carry_out(),
            Self::Ls(ls) => ls.carry_out(),
            Self::Top(top) => top.carry_out(),
            Self::Metrics(metrics) => metrics.carry_out(),
            Self::Rm(rm) => rm.carry_out(),
            Self::Lab(lab) => lab.carry_out(),
            Self::Bench(bench) => bench.carry_out(),
            Self::Plan(plan) => plan.carry_out(),
            Self::MpiEnv(environment) => environment.carry_out(),
            Self::FabricEnv(environment) => environment.carry_out(),
            Self::Doctor(doctor) => doctor.carry_out(),
            Self::Agent(agent) => agent.carry_out(),
            Self::Manual(manual) => manual.carry_out(CommandLine::command()),
        }
    }
}

fn main() -> ExitCode {
    let outcome = match verb::lab::hidden(std::env::args_os().skip(1)) {
        Some(outcome) => outcome,
        None => {
            start_log();
            match CommandLine::try_parse() {
                Ok(line) => line.verb.carry_out(),
                Err(error) => {
                    let words: Vec<_> = std::env::args_os().skip(1).collect();
                    return usage::tell(&error, &CommandLine::command(), &words);
                }
            }
        }
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.tell(),
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
