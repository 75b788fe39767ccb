//! Waiting and waking.

pub(crate) mod datagrams;
pub(crate) mod domain_users;
pub(crate) mod doorbell;
pub(crate) mod sleep;
pub(crate) mod wait_queue;
pub(crate) mod waker_cpus;
