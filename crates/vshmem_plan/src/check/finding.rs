//! What was found of one thing.

use serde::Serialize;

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The thing.
    pub what: String,
    /// It is as planned.
    pub good: bool,
    /// How it is.
    pub found: String,
    /// How it should be, where that is not how it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that is as planned.
    pub(super) fn good(what: impl Into<String>, found: impl Into<String>) -> Self {
        let (what, found) = (what.into(), found.into());
        Self { what, good: true, found, expected: None, remedy: None }
    }

    /// Something that is not.
    pub(super) fn wrong(
        what: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            good: false,
            expected: Some(expected.into()),
            remedy: Some(remedy.into()),
            ..Self::good(what, found)
        }
    }
}
