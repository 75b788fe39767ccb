//! This process's place in the pool.

pub mod agent;
pub mod caller;
pub mod cancel;
pub mod confined;
pub mod descriptors;
pub mod environment;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod handlers;
pub mod join;
pub mod reap;
pub mod route;
