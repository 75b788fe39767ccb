//! The symbols of libc that this library answers, by what they are about. Each takes C's arguments,
//! passes on what is not the pool's, and leaves the rest to `mapping`, `session` or `vshmem_ipc`.

pub mod control;
pub mod credentials;
pub mod dlopen;
pub mod exec;
pub mod files;
pub mod keys;
pub mod limits;
pub mod mapping;
pub mod msg;
pub mod process;
pub mod sem;
pub mod shm;
pub mod signal;
pub mod syscall;
