//! What is done when a process or a domain has ended.

pub(crate) mod agent_watch;
pub(crate) mod departure;
pub(crate) mod domain;
pub(crate) mod exiting;
pub(crate) mod objects;
pub(crate) mod reap;
pub(crate) mod reclaim;
pub(crate) mod steps;
pub(crate) mod threads;
