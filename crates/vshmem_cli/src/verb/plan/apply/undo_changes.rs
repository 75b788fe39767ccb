//! Undoing changes, the last first.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use vshmem_plan::settings::below;

use super::applied_plan::{AppliedPlan, Change};
use super::journal::crash_point;
use super::record_directory::RecordDirectory;
use super::shared_setting::leave_to_another;
use super::{libvirt, pool, process};
use crate::failure::{Failure, failed};

/// Undoes all changes, and removes the plan's record. What cannot be undone stays recorded, so that
/// it can be tried again; the sentences say why. `tell` is given a line for each change, once what
/// is left is recorded.
pub fn undo_changes(
    records: &RecordDirectory,
    root: &Path,
    mut applied: AppliedPlan,
    mut tell: impl FnMut(String),
) -> Result<(), Failure> {
    applied.complete = false;
    let mut left = Vec::new();
    let mut sentences = Vec::new();
    while let Some(change) = applied.changes.pop() {
        let undone = match &change {
            Change::Setting { file, .. } => match leave_to_another(records, &applied.name, &change)
            {
                Ok(Some(other)) => Ok(format!("{}: plan {other} needs it so", file.display())),
                Ok(None) => undo_change(records, root, &change),
                Err(failure) => Err(failure),
            },
            _ => undo_change(records, root, &change),
        };
        let line = match undone {
            Ok(line) => Some(line),
            Err(failure) => {
                sentences.push(failure.to_string());
                left.insert(0, change.clone());
                None
            }
        };
        crash_point();
        // The last is still recorded as long as it may not be undone.
        let earlier = applied.changes.len();
        applied.changes.extend(left.iter().cloned());
        records.write(&applied)?;
        applied.changes.truncate(earlier);
        line.into_iter().for_each(&mut tell);
    }
    if left.is_empty() {
        return records.remove(&applied.name);
    }
    failed(format!(
        "plan {}: {}. When that is mended, `vshmem plan undo {0}` undoes the rest",
        applied.name,
        sentences.join("; ")
    ))
}

/// Undoes one change, whether it was made or not; a line that says what was done.
fn undo_change(records: &RecordDirectory, root: &Path, change: &Change) -> Result<String, Failure> {
    match change {
        Change::Setting { file, found, .. } => {
            restore_setting(root, file, found)?;
            Ok(format!("{}: {found} again", file.display()))
        }
        Change::Pool { name, uuid } => pool::remove(records, name, uuid),
        Change::Guest { name, pid, start } => {
            process::end(*pid, *start)?;
            Ok(format!("{name}: ended"))
        }
        Change::Domain { name, uuid, connect } => {
            libvirt::remove(records, connect, uuid)?;
            Ok(format!("{name}: ended, and its definition removed"))
        }
    }
}

/// Writes the value that was found before.
fn restore_setting(root: &Path, file: &Path, found: &str) -> Result<(), Failure> {
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
    let path = below(root, file);
    fs::OpenOptions::new().write(true).truncate(true).open(&path)?.write_all(value.as_bytes())?;
    Ok(fs::read_to_string(&path)?.trim().to_owned())
}
