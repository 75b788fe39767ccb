//! What is done when a process or a domain has ended.

pub(crate) mod leavers;
pub(crate) mod reap;
pub(crate) mod reclaim;
pub(crate) mod threads;
pub(crate) mod watchdog;
