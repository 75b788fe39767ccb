//! A case in its place, by its recipe.

use serde_json::Value;

use super::places::Places;
use crate::error::Result;
use crate::kernel::line_of;
use crate::study::case::{Case, Recipe};
use crate::study::environment::Environment;
use crate::study::runner::{Outcome, RunCase};

impl RunCase for Places {
    fn run(&mut self, case: &Case) -> Result<Outcome> {
        let text = match &case.recipe {
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
        }?;
        let line: Value = line_of(&case.name, &text)?;
        // A guest that is booted for a case is User Mode Linux, whatever the lab is that was named.
        let place = match case.recipe {
            Recipe::Confined { .. } | Recipe::Fresh { .. } => Environment::Native,
            _ => case.environment,
        };
        Ok(Outcome { line, emulated: self.emulated(place) })
    }
}
