//! `vshmem lab`: guests on this machine. The work is in `vshmem_lab`; here are its pool and its
//! command line.

mod built;
mod command;
mod exec;
mod ls;
mod own_pool;
mod up;
mod xen;

pub use built::{built_driver, launch_components};
pub use command::{LabCommand, hidden};
