//! Rows about the domains, clients and objects of a pool, for `vshmem ls` and the agent. Looked at
//! without a lock.

pub(crate) mod activity;
mod address;
pub(crate) mod client_rows;
pub(crate) mod domain_rows;
pub(crate) mod object_rows;
pub(crate) mod rows;
