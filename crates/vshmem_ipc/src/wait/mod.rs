//! Waiting and waking.

pub(crate) mod agent;
pub(crate) mod domain_users;
pub(crate) mod doorbell;
pub(crate) mod notify;
pub(crate) mod queue;
pub(crate) mod sleep;
pub(crate) mod waker_cpus;

pub(crate) use queue::{Line, Rings, errno_of, join_line, leave_line, result_of, walk};
pub(crate) use sleep::Woken;

pub(crate) use crate::pool::threads::thread_at;
