//! A process as a client of a pool: joining, forking, leaving, and its domain's lease.

pub(crate) mod fork;
pub(crate) mod join;
pub(crate) mod lease;
pub(crate) mod leave;
