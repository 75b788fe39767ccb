//! The command line of `vshmem`: its verbs.

use clap::{Parser, Subcommand};

use crate::failure::Outcome;
use crate::{pool, verb};

/// System V IPC across co-located virtual machines, for unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "vshmem", version = VERSION, propagate_version = true, after_help = EXAMPLES)]
pub struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

/// The release, and the commit that it was built from.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("VSHMEM_COMMIT"), ")");

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
    #[command(after_help = "`vshmem lab --help` shows its verbs.")]
    Lab(verb::tool::Words),
    /// Measure vshmem beside its rivals.
    #[command(after_help = "`vshmem bench --help` shows its verbs.")]
    Bench(verb::tool::Words),
    /// Cut a host into guests along its sockets, nodes or caches.
    Plan(verb::plan::Plan),
    /// Move a QEMU guest that has a pool: it leaves the pool, moves, and is given one again.
    Move(verb::move_guest::Move),
    /// Print the environment in which Open MPI's mpirun goes through a pool.
    MpiEnv(verb::mpi_env::MpiEnv),
    /// Print the environment in which MPI and PGAS libraries over libfabric go through a pool.
    FabricEnv(verb::fabric_env::FabricEnv),
    /// Say what this machine has and lacks, with a remedy for each.
    Doctor(verb::doctor::Doctor),
    /// Start a domain's agent for a pool; `run` does it by itself.
    Agent(verb::agent::Agent),
}

impl CommandLine {
    /// Does it.
    ///
    /// # Errors
    /// What each verb says in a sentence.
    pub fn carry_out(self) -> Outcome {
        match self.verb {
            Verb::Run(run) => run.carry_out(),
            Verb::Pool(pool) => pool.carry_out(),
            Verb::Ls(ls) => ls.carry_out(),
            Verb::Top(top) => top.carry_out(),
            Verb::Metrics(metrics) => metrics.carry_out(),
            Verb::Rm(rm) => rm.carry_out(),
            Verb::Lab(_) => verb::tool::become_program(verb::tool::LAB),
            Verb::Bench(_) => verb::tool::become_program(verb::tool::BENCH),
            Verb::Plan(plan) => plan.carry_out(),
            Verb::Move(guest) => guest.carry_out(),
            Verb::MpiEnv(environment) => environment.carry_out(),
            Verb::FabricEnv(environment) => environment.carry_out(),
            Verb::Doctor(doctor) => doctor.carry_out(),
            Verb::Agent(agent) => agent.carry_out(),
        }
    }
}
