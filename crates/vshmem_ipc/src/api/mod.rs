//! The public type: one method per call, each of one line.

mod claims;
pub(crate) mod client;
pub(crate) mod errno;
mod futex;
pub(crate) mod msg;
pub(crate) mod pool;
pub(crate) mod posix_queue;
pub(crate) mod posix_shm;
pub(crate) mod recovery;
pub(crate) mod sem;
pub(crate) mod shm;
pub(crate) mod wait;
