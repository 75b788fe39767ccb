//! How long an agent stays.

/// How long an agent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Until no program of this domain, and of those below it, uses the pool.
    WhileInUse,
    /// Until the pool is removed.
    WhileThePoolExists,
}
