//! Shared memory segments, shmget(2), shmop(2), shmctl(2), and POSIX shared memory objects,
//! shm_overview(7).
//!
//! # Locking
//! Everything is under the registry lock; steps are short. Memory is prepared (backed, zeroed)
//! outside it, while the segment is `Creating` and only its creator knows it.

pub(crate) mod attach;
pub(crate) mod clean;
pub(crate) mod create;
pub(crate) mod hold;
mod node_key;
pub(crate) mod posix;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod status;
pub(crate) mod suspend;
