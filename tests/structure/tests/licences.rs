//! All dependencies have a licence that deny.toml allows, and come from the registry. `cargo deny
//! check` sees more (advisories), where it is installed; this needs neither it nor a network.
//! LICENCES_OF: the directory of another workspace of this tree, whose crates have been fetched.

use std::process::Command;

use serde_json::Value;
use vshmem_structure::root;

fn dependencies() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // What other platforms need is neither built nor fetched here.
    let platform = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline", &platform])
        .current_dir(root().join(std::env::var("LICENCES_OF").unwrap_or_default()))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages").clone();
    packages.into_iter().filter(|package| !package["source"].is_null()).collect()
}

fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let rules: toml::Table = text.parse().expect("deny.toml is TOML");
    let list = rules["licenses"]["allow"].as_array().expect("a list of licences");
    list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Whether an SPDX expression can be satisfied: one of its alternatives has allowed licences only.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    if allowed.iter().any(|one| one == expression.trim()) {
        return true;
    }
    // `A AND (B OR C)` is the only way in which both words meet.
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|one| allowed.iter().any(|known| known == one.trim())))
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed();
    let refused: Vec<String> = dependencies()
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or(""), &allowed))
        .map(|package| {
            format!("{} {}: {}", package["name"], package["version"], package["license"])
        })
        .collect();
    assert!(refused.is_empty(), "not in deny.toml's list:\n{}", refused.join("\n"));
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let strange: Vec<String> = dependencies()
        .iter()
        .filter(|package| !package["source"].as_str().unwrap_or("").starts_with("registry+"))
        .map(|package| format!("{}: {}", package["name"], package["source"]))
        .collect();
    assert!(strange.is_empty(), "not from a registry:\n{}", strange.join("\n"));
}
