//! No two files of a crate import each other, directly or through others: each can be read after
//! those that it imports. So it is with the C files of a folder, and the functions that they call.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use vshmem_structure::{Arrow, arrows, c_calls, circles, crates};

/// Each circle, and the arrows that close it.
fn describe(place: &str, arrows: &BTreeSet<Arrow>) -> String {
    let mut found = String::new();
    for circle in circles(arrows) {
        writeln!(found, "\n{place}: a circle of {} files", circle.len())
            .expect("a string takes all");
        for arrow in
            arrows.iter().filter(|arrow| circle.contains(&arrow.from) && circle.contains(&arrow.to))
        {
            writeln!(found, "  {} -> {}: {}", arrow.from.display(), arrow.to.display(), arrow.name)
                .expect("a string takes all");
        }
    }
    found
}

#[test]
fn no_circle_of_imports() {
    let found: String = crates().iter().map(|unit| describe(&unit.name, &arrows(unit))).collect();
    assert!(found.is_empty(), "{found}");
}

/// Test programs and benchmarks are left out: there a main file often has both the start, which
/// calls each case, and what the cases share.
#[test]
fn no_circle_of_calls_among_c_files() {
    let is_test = |folder: &Path| folder.starts_with("tests") || folder.ends_with("selftest");
    let apart = |folder: &Path| is_test(folder) || folder.starts_with("bench");
    let folders = c_calls();
    assert!(folders.contains_key(Path::new("openmpi")), "{:?}", folders.keys());
    let found: String = folders
        .iter()
        .filter(|(folder, _)| !apart(folder))
        .map(|(folder, calls)| describe(&folder.display().to_string(), calls))
        .collect();
    assert!(found.is_empty(), "{found}");
}
