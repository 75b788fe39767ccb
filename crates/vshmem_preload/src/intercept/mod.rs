//! The symbols of libc that this library answers.

pub mod control;
pub mod credentials;
pub mod files;
pub mod keys;
pub mod msg;
pub mod sem;
pub mod shm;
pub mod syscall;
