//! One process in a guest that has just been booted, or that has run it before.

use super::places::{Places, patient};
use crate::error::Result;
use crate::site::Memory;
use crate::study::case::Case;

impl Places {
    /// Boots a guest, runs the program in it so many times, and ends it. The line is the last
    /// run's.
    pub(super) fn fresh_guest(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
        run: u32,
    ) -> Result<String> {
        let job = patient(case, self.setup.kernels.find(program)?, arguments.to_vec());
        let guests = self.boot(1, Memory::default())?;
        guests.deliver(1, &job.program)?;
        let mut said = guests.run_in(1, &job)?;
        for _ in 1..run {
            said = guests.run_in(1, &job)?;
        }
        Ok(said)
    }
}
