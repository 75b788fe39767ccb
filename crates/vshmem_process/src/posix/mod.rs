//! Calls of the program on objects of POSIX and their descriptors, by whatever way the call has
//! come. `follow` keeps the table of descriptors right; `adopt` finds those that come from
//! elsewhere; `name` and `umask` are what opening takes; the others do to shared memory objects
//! what the kernel does to files.

pub mod adopt;
pub mod directory;
pub mod follow;
pub mod locks;
pub mod map;
pub mod mq_notify;
pub mod name;
pub mod queue;
pub mod readiness;
pub mod seek;
pub mod send_file;
pub mod shared_memory;
pub mod signals_due;
pub mod size;
pub mod state;
pub mod transfer;
pub mod umask;
