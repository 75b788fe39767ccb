//! Whether guests of the lab can be booted here: its own program knows what they need.

use std::process::Command;

use serde::Deserialize;

use super::line::Line;
use crate::verb::tool;

/// For each kind of guests, in the program's order.
const WHAT: [&str; 2] = ["lab, UML guests (optional)", "lab, QEMU guests (optional)"];

/// What is missing for one kind of guests.
#[derive(Debug, Deserialize)]
struct Missing {
    what: String,
    found: String,
    remedy: String,
}

/// A line for each kind.
pub fn lines() -> Vec<Line> {
    let Some(program) = tool::find(tool::LAB) else {
        return vec![Line::note(
            "lab (optional)",
            format!("not installed: there is no {}", tool::LAB),
            "`apt-get install vshmem-tools`, or in vshmem's sources `make build`",
        )];
    };
    let kinds = Command::new(&program).args(["lab", "check"]).output();
    let kinds: Option<[Vec<Missing>; 2]> =
        kinds.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let Some(kinds) = kinds else {
        return vec![Line::bad(
            "lab (optional)",
            format!("{}: it does not say what it needs", program.display()),
            "`vshmem lab ls` says why",
        )];
    };
    WHAT.iter().zip(kinds).map(|(what, missing)| line(what, &missing)).collect()
}

fn line(what: &'static str, missing: &[Missing]) -> Line {
    if missing.is_empty() {
        return Line::good(what, "they can be booted");
    }
    let found: Vec<String> =
        missing.iter().map(|one| format!("{}: {}", one.what, one.found)).collect();
    let remedies: Vec<&str> = missing.iter().map(|one| one.remedy.as_str()).collect();
    Line::bad(what, found.join("; "), remedies.join("; "))
}
