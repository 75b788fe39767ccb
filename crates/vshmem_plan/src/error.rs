//! What can go wrong.

use thiserror::Error;

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum Error {
    /// The topology could not be had.
    #[error("topology {source_name}: {found}. {remedy}")]
    Source {
        /// What was to be read.
        source_name: String,
        /// What came back.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The request does not fit the machine.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// A request that this machine cannot meet, and the nearest one that it can.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{wanted}: {found}. {nearest}")]
pub struct Impossible {
    /// What was wanted.
    pub wanted: String,
    /// What stands against it.
    pub found: String,
    /// The nearest that can be done, as a sentence.
    pub nearest: String,
}
