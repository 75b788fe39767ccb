//! Each crate has a short README, and the walks through the code are short.

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

/// How many stops a walk through the code may have: where no lock is taken and no thread sleeps,
/// and elsewhere.
const FAST_STOPS: usize = 8;
const SLOW_STOPS: usize = 12;

#[test]
fn a_walk_is_short() {
    let text = std::fs::read_to_string(root().join("docs/internals/walks.md"))
        .expect("the walks are there");
    let mut wrong = Vec::new();
    let walks: Vec<&str> = text.split("\n## ").skip(1).collect();
    for walk in &walks {
        let title = walk.lines().next().unwrap_or_default();
        let is_row = |line: &&str| {
            let cell = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next());
            cell.is_some_and(|cell| cell.parse::<usize>().is_ok())
        };
        let stops = walk.lines().filter(is_row).count();
        let most = if walk.contains("No lock, no system call") { FAST_STOPS } else { SLOW_STOPS };
        if stops == 0 || stops > most {
            wrong.push(format!("{title}: {stops} stops, at most {most}"));
        }
    }
    assert!(walks.len() == 4 && wrong.is_empty(), "{} walks; {wrong:?}", walks.len());
}
