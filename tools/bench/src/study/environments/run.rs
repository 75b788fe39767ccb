//! A case in its place, by its recipe.

use serde_json::Value;

use super::places::{GUESTS, Places};
use crate::error::Result;
use crate::kernel::line_of;
use crate::study::case::{Case, Recipe};
use crate::study::environment::Environment;
use crate::study::placement::{Pages, Pinned, Placement, Share, count, pin, watch};
use crate::study::runner::{Outcome, RunCase};

impl RunCase for Places {
    fn run(&mut self, case: &Case) -> Result<Outcome> {
        let (text, pages) = match self.setup.placement.clone() {
            Some(placement) => self.placed(case, &placement)?,
            None => (self.carry_out(case)?, Vec::new()),
        };
        let line: Value = line_of(&case.name, &text)?;
        // A guest that is booted for a case is User Mode Linux, whatever the lab is that was named.
        let place = match has_own_guest(case) {
            true => Environment::Native,
            false => case.environment,
        };
        Ok(Outcome { line, emulated: self.emulated(place), pages })
    }
}

/// Whether a guest is booted for this case alone, where it does not run in this kernel.
fn has_own_guest(case: &Case) -> bool {
    matches!(case.recipe, Recipe::Confined { .. } | Recipe::Fresh { .. })
}

impl Places {
    fn carry_out(&mut self, case: &Case) -> Result<String> {
        match &case.recipe {
            Recipe::Roles { program, arguments } => self.roles(case, program, arguments),
            Recipe::Team { program, arguments } => self.team(case, program, arguments),
            Recipe::Mpirun { program, arguments } => self.mpirun(case, program, arguments),
            Recipe::Alone { program, arguments, variables } => {
                self.alone(case, program, arguments, variables)
            }
            Recipe::Twice { program, arguments } => self.twice(case, program, arguments),
            Recipe::Confined { program, arguments, mebibytes } => {
                self.confined(case, program, arguments, *mebibytes)
            }
            Recipe::Fresh { program, arguments, run } => {
                self.fresh_guest(case, program, arguments, *run)
            }
            Recipe::Known { study, guests } => self.known(case, study, *guests),
        }
    }

    /// Where a plan has it; with the pages that it used.
    fn placed(&mut self, case: &Case, placement: &Placement) -> Result<(String, Vec<Pages>)> {
        if case.environment == Environment::Native {
            // Not what runs in them: this thread waits meanwhile.
            let _pinned = Pinned::to(&placement.cpus_for(case.ranks))?;
            let (text, pages) = watch(placement, || self.carry_out(case));
            return Ok((text?, pages));
        }
        if has_own_guest(case) {
            return Ok((self.carry_out(case)?, Vec::new()));
        }
        let shares: Vec<Share> = match case.environment {
            Environment::Guests => placement.shares().to_vec(),
            _ => vec![placement.wide()],
        };
        let users = self.guests(GUESTS, None)?.users()?;
        for (user, share) in users.iter().zip(&shares) {
            pin(*user, share)?;
        }
        let text = self.carry_out(case)?;
        let counted = users.iter().zip(&shares).enumerate();
        let pages = counted
            .filter_map(|(nth, (user, share))| count(format!("guest{}", nth + 1), *user, share));
        Ok((text, pages.collect()))
    }
}
