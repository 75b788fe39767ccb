//! As what a process joins.

use vshmem_wire::DomainState;

/// As what a process joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// To use the pool: refused where the domain leaves or has left.
    User,
    /// To carry out that the domain leaves, or comes back.
    Leaver,
}

impl Entry {
    /// Whether it may join a domain that leaves, or has left, where others may not.
    pub(crate) fn is_for(self, state: DomainState) -> bool {
        self == Self::Leaver && matches!(state, DomainState::Leaving | DomainState::Left)
    }
}
