//! POSIX message queues: mq_overview(7).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/mqueue.c`: a receiver takes the oldest message of the highest priority;
//! what a queue holds is limited by the number of messages. A queue has a name, and lives until the
//! name and the last descriptor have gone.
//!
//! # Built on the System V queue
//! A message's type is its priority plus one. No message in the ring has a lower priority than the
//! one behind it, and the ring is only used where the queue allows as many messages as it has
//! slots: so the oldest is right, and the limit cannot be exceeded. A sender looks at the message
//! that was sent last (`ring::may_follow`). That one keeps its priority, and while the tail is free
//! nothing comes between: so if the tail's slot is filled then, what was found is true. Everything
//! else goes to the list, which is in the order of priorities (`list.rs`). While a process is
//! registered with mq_notify the queue uses its list, so that each sender looks under the lock
//! whether it is the first.
//!
//! # Descriptors
//! Each is counted at the queue and in an attach record of its client, so that the end of a process
//! gives its descriptors back. What takes the last one of a queue without a name away notes that as
//! its thread's task and removes the queue under its own lock.

pub(crate) mod attributes;
pub(crate) mod descriptors;
pub(crate) mod mq_notify;
pub(crate) mod open;
pub(crate) mod transfer;
pub(crate) mod unlink;
