//! `vshmem lab`: guests on this machine. The work is in `vshmem_lab`; here are its pool and its
//! command line.

#![forbid(unsafe_code)]

mod command;
mod exec;
mod failure;
mod ls;
mod own_pool;
mod up;
mod xen;

pub use command::CommandLine;
