//! Logs, in errors.

use std::path::Path;

/// How many lines an error shows.
const LINES: usize = 30;

/// The end of a log file, for an error.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
