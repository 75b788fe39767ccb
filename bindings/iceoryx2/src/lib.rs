//! iceoryx2 between the guests of one host that share a pool: a service variant over `libvshmem`.
//!
//! ```no_run
//! use iceoryx2::prelude::*;
//! use vshmem_iceoryx2::Service;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = NodeBuilder::new().create::<Service>()?;
//! let service = node
//!     .service_builder(&"My/Funk/ServiceName".try_into()?)
//!     .publish_subscribe::<u64>()
//!     .open_or_create()?;
//! # Ok(())
//! # }
//! ```
//! The pool is the one that `VSHMEM_POOL` names, or that this guest was given; [`join`] takes
//! another. All else is as with iceoryx2's own variants. The README beside says what differs.

mod bell;
pub mod dynamic_storage;
pub mod event;
mod leftovers;
pub mod monitoring;
mod naming;
mod object;
mod pool;
pub mod reactor;
mod readiness;
mod service;
pub mod static_storage;
mod sys;
pub mod unique_id;

pub use leftovers::remove_leftovers;
pub use pool::join;
pub use service::{Connection, ResizableSharedMemory, Service, SharedMemory, ThreadsafeService};
