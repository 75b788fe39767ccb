//! Waiting and waking.

pub(crate) mod answerers;
pub(crate) mod doorbell;
pub(crate) mod files;
pub(crate) mod notify;
pub(crate) mod queue;

pub(crate) use queue::{
    Line, Rings, Woken, errno_of, join_line, leave_line, result_of, thread_at, walk,
};
