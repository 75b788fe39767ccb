//! No two files of a crate import each other, directly or through others: each can be read after
//! those that it imports.

use std::fmt::Write as _;

use vshmem_structure::{arrows, circles, crates};

#[test]
fn no_circle_of_imports() {
    let mut found = String::new();
    for unit in crates() {
        let arrows = arrows(&unit);
        for circle in circles(&arrows) {
            writeln!(found, "\n{}: a circle of {} files", unit.name, circle.len())
                .expect("a string takes all");
            for arrow in arrows
                .iter()
                .filter(|arrow| circle.contains(&arrow.from) && circle.contains(&arrow.to))
            {
                writeln!(
                    found,
                    "  {} -> {}: {}",
                    arrow.from.display(),
                    arrow.to.display(),
                    arrow.name
                )
                .expect("a string takes all");
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}
