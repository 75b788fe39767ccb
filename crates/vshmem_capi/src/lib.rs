//! `libvshmem.so`: what `vshmem.h` declares.
//!
//! Handles are boxed values of this library; a caller passes what it was given and not yet closed,
//! as with every C library. What lies in the pool is checked here and below.

#![allow(unsafe_code)] // pointers of C callers

mod agent;
mod attach;
mod caller;
mod client;
mod departure;
mod fork;
mod handle;
mod lane;
mod membership;
mod memory;
mod objects;
mod pool;
mod port;
mod posix_shm;
mod team;
mod team_blocks;
mod word;

use std::ffi::c_int;

use vshmem_ipc::Errno;

/// An error as C callers get it: a negative errno.
fn answer(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|errno| -errno.raw_os_error())
}
