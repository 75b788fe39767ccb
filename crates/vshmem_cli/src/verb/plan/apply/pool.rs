//! The plan's pools, by the command's own `pool create` and `pool rm`.

use std::process::Command;

use vshmem_plan::{Pool, form};
use vshmem_session::FindError;

use super::place::Place;
use crate::failure::{Failure, failed};
use crate::program::own_binary;

/// The words that make it. `group`: who else may use it.
pub fn words(pool: &Pool, group: Option<&str>) -> Vec<String> {
    let nodes = pool.nodes.to_string();
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

/// Makes it.
pub fn make(place: &Place, pool: &Pool, group: Option<&str>) -> Result<(), Failure> {
    run(place, &words(pool, group))
}

/// Removes it.
pub fn remove(place: &Place, name: &str) -> Result<(), Failure> {
    run(place, &["pool", "rm", name].map(str::to_owned))
}

fn run(place: &Place, words: &[String]) -> Result<(), Failure> {
    let output = Command::new(own_binary()?).args(words).stdin(place.as_input()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(said.trim().trim_start_matches("vshmem: ").to_owned())
        }
        Err(error) => failed(format!("`vshmem {}`: cannot start it: {error}", words.join(" "))),
    }
}
