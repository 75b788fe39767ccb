//! The plan's pools, by the command's own `pool create` and `pool rm`.

use std::process::Command;

use vshmem_plan::{Pool, form};
use vshmem_session::FindError;

use super::record_directory::RecordDirectory;
use crate::failure::{Failure, failed};
use crate::program::own_binary;
use crate::uuid;

/// The words that make it. `group`: who else may use it.
pub fn words(pool: &Pool, group: Option<&str>) -> Vec<String> {
    let nodes = pool.numa_option();
    let size = form::bytes(pool.bytes);
    let mut words = vec!["pool", "create", &pool.name, "--size", &size, "--numa", &nodes];
    if let Some(group) = group {
        words.extend(["--mode", "0660", "--group", group]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Refuses a name that is taken: it would not be known whose pool is removed later.
pub fn require_free(pool: &Pool) -> Result<(), Failure> {
    let name = &pool.name;
    match vshmem_session::find(name) {
        Err(FindError::Unknown { .. }) => Ok(()),
        _ => failed(format!(
            "pool {name}: there is one of that name already. `vshmem pool rm {name}` removes it"
        )),
    }
}

/// Makes it, with that UUID.
pub fn make(
    records: &RecordDirectory,
    pool: &Pool,
    group: Option<&str>,
    uuid: &str,
) -> Result<(), Failure> {
    let mut words = words(pool, group);
    words.extend(["--uuid", uuid].map(str::to_owned));
    run(records, &words)
}

/// Removes the pool of that name if it has that UUID; a line that says what was done.
pub fn remove(records: &RecordDirectory, name: &str, uuid: &str) -> Result<String, Failure> {
    let found = match vshmem_session::find(name) {
        Err(FindError::Unknown { .. }) => return Ok(format!("pool {name}: not there")),
        found => found.and_then(|link| vshmem_session::identify(link.as_ref())),
    };
    match found {
        Ok((superblock, _)) if uuid::shown(&superblock.uuid) != uuid => {
            Ok(format!("pool {name}: left, as the plan made another one of that name"))
        }
        Ok(_) => {
            run(records, &["pool", "rm", name].map(str::to_owned))?;
            Ok(format!("pool {name}: removed"))
        }
        Err(error) => failed(format!(
            "pool {name}: it cannot be read, so it may be another pool than the plan's, and it was left: {error}. `vshmem pool rm {name}` removes it"
        )),
    }
}

fn run(records: &RecordDirectory, words: &[String]) -> Result<(), Failure> {
    let output = Command::new(own_binary()?).args(words).stdin(records.as_input()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(said.trim().trim_start_matches("vshmem: ").to_owned())
        }
        Err(error) => failed(format!("`vshmem {}`: cannot start it: {error}", words.join(" "))),
    }
}
