//! `vshmem move`: a guest goes to another QEMU or another host, without the pool.

mod dax;
mod destination;
mod journey;
mod migration;
mod options;
mod virsh;

use std::process::ExitCode;

use crate::failure::{Failure, Outcome};
use crate::pool::HostPool;
use crate::show;

use journey::Journey;

pub use options::Move;

impl Move {
    /// Moves it.
    pub fn carry_out(self) -> Outcome {
        let pool = HostPool::of(&self.pool)?;
        match (&self.virsh, &self.qmp) {
            (Some(guest), _) => show::text(&virsh::commands(&self, &pool, guest)?)?,
            (None, Some(socket)) => Journey::prepare(&self, pool, socket)?.make()?,
            (None, None) => return Err(Failure::Usage("--qmp: name the guest's monitor".into())),
        }
        Ok(ExitCode::SUCCESS)
    }
}
