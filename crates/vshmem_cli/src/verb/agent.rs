//! `vshmem agent`: a domain's agent for one pool.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::failure::Outcome;

/// Notices deaths. Started by `vshmem run`; ends by itself when no client is left.
#[derive(Debug, Args)]
pub struct Agent {
    /// The pool's file or device.
    #[arg(long)]
    pool: PathBuf,
    /// Be the agent, rather than starting it.
    #[arg(long, hide = true)]
    stay: bool,
}

impl Agent {
    /// Starts the agent, or is it.
    pub fn carry_out(self) -> Outcome {
        if self.stay {
            vshmem_agent::serve(&self.pool)?;
        } else {
            vshmem_agent::detach(&self.pool)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
