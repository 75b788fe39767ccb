//! What a machine lacks.

use std::fmt;

use serde::Serialize;

/// Something that the lab needs and did not find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What is needed.
    pub what: String,
    /// What was found instead.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

impl Missing {
    pub(crate) fn new(
        what: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Missing { what: what.into(), found: found.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.found, self.remedy)
    }
}
