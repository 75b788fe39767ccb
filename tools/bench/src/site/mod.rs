//! Where the two roles of a program run. One file per kind of place.

mod containers;
mod guests;
mod place;
mod ports;
mod processes;
mod spawn;

use crate::error::{Error, Result};

pub use containers::Containers;
pub use guests::Guests;
pub(crate) use place::play;
pub use place::{Between, Job, Materials, Memory, Side, Site};
pub(crate) use ports::Ports;
pub use processes::Processes;
pub(crate) use spawn::{SHARE, run as run_on_pool, run_bare, two_cpus};

/// Opens a place of that kind; without a kind, the first that can be had of guests, containers and
/// processes. Calls `tell` with one line about each that cannot.
///
/// # Errors
/// Says why the kind asked for cannot be had.
pub fn open(
    between: Option<Between>,
    materials: &Materials<'_>,
    tell: &dyn Fn(&str),
) -> Result<Box<dyn Site>> {
    let open = |between| -> Result<Box<dyn Site>> {
        Ok(match between {
            Between::Guests => Box::new(Guests::open(materials)?),
            Between::Containers => Box::new(Containers::open(materials)?),
            Between::Processes => Box::new(Processes::open(materials)?),
        })
    };
    if let Some(between) = between.or_else(|| materials.lab.map(|_| Between::Guests)) {
        return open(between);
    }
    for (between, instead) in [
        (Between::Guests, "two containers on a local pool instead"),
        (Between::Containers, "two plain processes on a local pool instead"),
    ] {
        match open(between) {
            // What lacks is part of the place; anything else would fail elsewhere too.
            Err(Error::NoSite { place, why }) => tell(&format!("no {place} ({why}): {instead}")),
            other => return other,
        }
    }
    open(Between::Processes)
}
