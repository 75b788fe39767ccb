//! Calls of the program that change its address space, and what it has attached with it: one file
//! for each, by whatever way the call has come. `change` is what they share, and
//! `whole_units` how they deal with a device that maps more than it is asked for; `user` knows
//! which of the program's memory can be read and written.
//!
//! One that has come by number (`syscall`) must not come to libc's function of its name, which
//! others (UCX) redirect to themselves and then come back by number: so each of them is given the
//! call to pass on.

pub mod advice;
pub mod attach;
pub mod change;
pub mod fixed;
pub mod protect;
pub mod reconcile;
pub mod remap;
pub mod remap_request;
pub mod unmap;
pub mod user;
pub mod whole_units;
