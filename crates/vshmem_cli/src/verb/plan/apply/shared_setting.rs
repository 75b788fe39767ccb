//! A setting that several applied plans need: it stays until the last of them is undone, which then
//! writes what was there before all of them.

use std::path::Path;

use vshmem_plan::settings::needs;

use super::applied_plan::{AppliedPlan, Change};
use super::record_directory::RecordDirectory;
use crate::failure::Failure;

/// Looks for another applied plan that needs this setting of the plan `name`, and records there
/// what was before both. The other plan's name; `None`: no plan needs it, and it can be undone.
pub fn leave_to_another(
    records: &RecordDirectory,
    name: &str,
    change: &Change,
) -> Result<Option<String>, Failure> {
    let Change::Setting { file, found, value } = change else { return Ok(None) };
    let mut others = records.others(name)?;
    others.retain(|other| needs(&other.plan, file));
    // When the process was killed after it recorded this: once is enough.
    for other in &mut others {
        if found_in(other, file).into_iter().any(|its| its == found) {
            return Ok(Some(other.name.clone()));
        }
    }
    // Huge pages add up: a plan that was applied later has found what this one wrote.
    for later in &mut others {
        let Some(its) = found_in(later, file).into_iter().find(|its| *its == value) else {
            continue;
        };
        its.clone_from(found);
        records.write(later)?;
        return Ok(Some(later.name.clone()));
    }
    // Those that were applied before, one upon the other, have what they need once this is undone.
    let mut before = found.clone();
    while let Some(number) = others.iter().position(|other| has_written(other, file, &before)) {
        let mut other = others.remove(number);
        if let Some(first) = found_in(&mut other, file).into_iter().next() {
            before.clone_from(first);
        }
    }
    let Some(other) = others.first_mut() else { return Ok(None) };
    other.changes.insert(0, change.clone());
    records.write(other)?;
    Ok(Some(other.name.clone()))
}

/// What a plan found in a file each time it changed it.
fn found_in<'a>(plan: &'a mut AppliedPlan, of: &Path) -> Vec<&'a mut String> {
    let its = plan.changes.iter_mut().filter_map(|change| match change {
        Change::Setting { file, found, .. } if file == of => Some(found),
        _ => None,
    });
    its.collect()
}

fn has_written(plan: &AppliedPlan, of: &Path, what: &str) -> bool {
    plan.changes.iter().any(|change| {
        matches!(change, Change::Setting { file, value, .. } if file == of && value == what)
    })
}
