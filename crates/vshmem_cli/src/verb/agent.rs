//! `vshmem agent`: a domain's agent for one pool.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use vshmem_agent::{AgentOptions, Stay};

use crate::failure::{Outcome, failed};

/// Start a domain's agent for a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Agent {
    /// The pool's file or device.
    #[arg(long)]
    pool: PathBuf,
    /// Stay until the pool is removed, also while no program of this domain uses it: so that the
    /// end of a container is noticed on a host where nothing else runs on the pool.
    #[arg(long)]
    keep: bool,
    /// Refuse a file that does not belong to this user, a number: one that somebody else has made
    /// where the pool was.
    #[arg(long, value_name = "UID")]
    owner: Option<u32>,
    /// Be the agent, rather than starting it.
    #[arg(long, hide = true)]
    stay: bool,
}

const EXAMPLES: &str = "\
An agent notices the deaths of programs and of containers below it, and gives back what they held.
`vshmem run` starts it, and it ends by itself when no process uses the pool any more. So this is
needed only for containers.

Examples:
  vshmem agent --keep --pool /dev/shm/vshmem.job7     on the host of containers";

impl Agent {
    /// Starts the agent, or is it.
    pub fn carry_out(self) -> Outcome {
        let stay = if self.keep { Stay::WhileThePoolExists } else { Stay::WhileInUse };
        let wanted = AgentOptions { path: self.pool, stay, owner: self.owner };
        if !wanted.path.exists() {
            return failed(format!(
                "{}: there is no such pool. `vshmem pool ls` shows those there are, with their places",
                wanted.path.display()
            ));
        }
        if self.stay {
            vshmem_agent::run_agent(&wanted)?;
        } else {
            vshmem_agent::detach(&wanted)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
