//! What the agent does while it lives: a round once a second, and in between whatever it is woken
//! for.

mod clients;
mod dead_domains;
mod doorbell;
mod host_heartbeat;
mod host_monitor;
mod namespaces;
mod period;
mod round;
mod silent_domains;
mod twins;

pub use round::{Ending, Watch};
