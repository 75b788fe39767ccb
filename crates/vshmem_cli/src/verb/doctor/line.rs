//! What `doctor` prints of one thing.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Line {
    /// What it is.
    pub what: &'static str,
    /// It is in order.
    pub good: bool,
    /// What was found.
    pub found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Line {
    /// Something that is in order.
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, good: true, found: found.into(), remedy: None }
    }

    /// Something that is in order and could be better.
    pub fn note(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { good: true, ..Self::bad(what, found, remedy) }
    }

    /// Whether the remedy has a command to be pasted.
    #[cfg(test)]
    pub fn has_command(&self) -> bool {
        self.remedy.as_ref().is_some_and(|remedy| remedy.matches('`').count() >= 2)
    }

    /// Something that is missing, or wrong.
    pub fn bad(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, good: false, found: found.into(), remedy: Some(remedy.into()) }
    }
}
