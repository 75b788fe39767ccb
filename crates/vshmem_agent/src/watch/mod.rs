//! What the agent does while it lives: a round once a second, and in between whatever it is woken
//! for.

mod clients;
mod doorbell;
mod host;
mod host_monitor;
mod leases;
mod namespaces;
mod period;
mod round;

pub use round::{Ending, Watch};
