//! The plan that `vshmem bench run --plan` follows.

use std::path::PathBuf;

use vshmem_bench::study::{GUESTS, Placement};
use vshmem_plan::machine::Source;
use vshmem_plan::{Cut, Plan, Request};

use crate::failure::Failure;

/// Where programs and guests are to run; `Err` of the inner one: a sentence why this machine has no
/// plan for as many guests as are compared, so that nothing is placed.
pub fn placement(file: Option<&PathBuf>) -> Result<Result<Placement, String>, Failure> {
    let plan = match file {
        Some(file) => vshmem_cli::read_plan(file)?,
        None => match of_this_machine() {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(why)),
        },
    };
    if file.is_some() {
        vshmem_cli::require_this_machine(&plan)?;
    }
    Ok(Placement::of(&plan, GUESTS as usize)
        .ok_or_else(|| format!("the plan has fewer than {GUESTS} guests")))
}

/// A guest for each socket; where there is one, so many as are compared.
fn of_this_machine() -> Result<Plan, String> {
    let machine = Source::This.read().map_err(|error| error.to_string())?;
    let plan = |cut| {
        let request = Request { cut, ..Request::default() };
        vshmem_plan::plan(&machine, &request).map_err(|error| error.to_string())
    };
    match plan(Cut::PerSocket) {
        Ok(found) if found.guests.len() >= GUESTS as usize => Ok(found),
        _ => plan(Cut::Count(GUESTS)),
    }
}
