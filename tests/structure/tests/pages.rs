//! Each crate has a short README.

use vshmem_structure::{crates, root};

/// What it is, what it may import, where to begin: more than that belongs into docs/.
const README_LINES: usize = 20;

#[test]
fn each_crate_has_a_short_readme() {
    let mut wrong = Vec::new();
    for unit in crates() {
        match std::fs::read_to_string(root().join(&unit.folder).join("README.md")) {
            Err(_) => wrong.push(format!("{}: no README.md", unit.folder.display())),
            Ok(text) if text.lines().count() > README_LINES => {
                wrong.push(format!(
                    "{}: README.md has more than {README_LINES} lines",
                    unit.folder.display()
                ));
            }
            Ok(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
