//! `vshmem bench`: measurements beside rivals. The work is in `vshmem_bench`; here are its command
//! lines and its tables.

#![forbid(unsafe_code)]

mod command;
mod compare;
mod failure;
mod guard;
mod mpi;
mod mpi_jobs;
mod nas;
mod pingpong;
mod placement;
mod report;
mod run;
mod sysv;
mod table;
mod terminal;

pub use command::CommandLine;
