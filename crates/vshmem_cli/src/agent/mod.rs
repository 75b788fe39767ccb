//! A domain's agent for one pool: it notices the deaths of the domain's clients and renews the
//! domain's lease. It is on nobody's data path; between its looks, about one a second, it sleeps.

mod clean;
mod namespaces;
mod notify;
mod start;
mod watch;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::failure::Outcome;
pub use start::start;

/// Notices deaths. Started by `vshmem run`; ends by itself when nobody is left.
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
            watch::serve(&self.pool)?;
        } else {
            start::detach(&self.pool)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
