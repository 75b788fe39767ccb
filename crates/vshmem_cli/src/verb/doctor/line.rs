//! What doctor says.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) what: &'static str,
    pub(super) good: bool,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Line {
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, good: true, found: found.into(), remedy: None }
    }

    /// Something that is in order and could be better.
    pub(super) fn note(
        what: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { good: true, ..Self::bad(what, found, remedy) }
    }

    pub(super) fn bad(
        what: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { what, good: false, found: found.into(), remedy: Some(remedy.into()) }
    }
}
