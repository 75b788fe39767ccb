//! Taking changes back, the last first.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use vshmem_plan::settings::below;

use super::journal::crash_point;
use super::place::Place;
use super::state::{AppliedPlan, Change};
use super::{libvirt, pool, process};
use crate::failure::{Failure, failed};

/// Takes all changes back and forgets the plan. What cannot be taken back stays noted, so that it
/// can be tried again; the sentences say why. `tell` is given a line for each change, once what is
/// left is noted.
pub fn revert(
    place: &Place,
    root: &Path,
    mut state: AppliedPlan,
    mut tell: impl FnMut(String),
) -> Result<(), Failure> {
    state.complete = false;
    let mut left = Vec::new();
    let mut sentences = Vec::new();
    while let Some(change) = state.changes.pop() {
        let taken_back = match &change {
            Change::Setting { file, .. } => match leave_to_another(place, &state.name, &change) {
                Ok(Some(other)) => Ok(format!("{}: plan {other} needs it so", file.display())),
                Ok(None) => take_back(place, root, &change),
                Err(failure) => Err(failure),
            },
            _ => take_back(place, root, &change),
        };
        let line = match taken_back {
            Ok(line) => Some(line),
            Err(failure) => {
                sentences.push(failure.to_string());
                left.insert(0, change.clone());
                None
            }
        };
        crash_point();
        // The last is still noted as long as it may not be taken back.
        let earlier = state.changes.len();
        state.changes.extend(left.iter().cloned());
        place.write(&state)?;
        state.changes.truncate(earlier);
        line.into_iter().for_each(&mut tell);
    }
    if left.is_empty() {
        return place.remove(&state.name);
    }
    failed(format!(
        "plan {}: {}. When that is mended, `vshmem plan undo {0}` takes back the rest",
        state.name,
        sentences.join("; ")
    ))
}

/// A setting stays as long as another plan is applied, which has found it as it wants it. That plan
/// notes what was there before all of them. The other plan's name.
fn leave_to_another(place: &Place, name: &str, change: &Change) -> Result<Option<String>, Failure> {
    let Some(mut other) = place.another(name)? else { return Ok(None) };
    if !other.changes.contains(change) {
        other.changes.insert(0, change.clone());
        place.write(&other)?;
    }
    Ok(Some(other.name))
}

/// Takes one change back, whether it was made or not; a line that says what was done.
fn take_back(place: &Place, root: &Path, change: &Change) -> Result<String, Failure> {
    match change {
        Change::Setting { file, found, .. } => {
            restore(root, file, found)?;
            Ok(format!("{}: {found} again", file.display()))
        }
        Change::Pool { name, uuid } => pool::remove(place, name, uuid),
        Change::Guest { name, pid, start } => {
            process::end(*pid, *start)?;
            Ok(format!("{name}: ended"))
        }
        Change::Domain { name, uuid, connect } => {
            libvirt::forget(place, connect, uuid)?;
            Ok(format!("{name}: ended, and its definition removed"))
        }
    }
}

fn restore(root: &Path, file: &Path, found: &str) -> Result<(), Failure> {
    match write(root, file, found) {
        // A CPU or a node that is gone has no settings.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => failed(format!("{}: cannot write {found} into it: {error}", file.display())),
        Ok(now) if now == found => Ok(()),
        Ok(now) => failed(format!(
            "{}: it is {now} after {found} was written: something uses or sets it. End that first",
            file.display()
        )),
    }
}

/// Writes one of the kernel's files that is there; what is in it then.
pub fn write(root: &Path, file: &Path, value: &str) -> std::io::Result<String> {
    use std::io::Write;
    let place = below(root, file);
    fs::OpenOptions::new().write(true).truncate(true).open(&place)?.write_all(value.as_bytes())?;
    Ok(fs::read_to_string(&place)?.trim().to_owned())
}
