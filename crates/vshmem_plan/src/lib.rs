//! Plans for a host that is cut into several guests: which CPUs, which memory and which topology
//! each guest gets, and where the pool lies that they share.
//!
//! [`machine`] reads what the host has, [`Request`] says what is wanted, [`plan`] decides, and
//! [`form`] writes the decision in the words of a machine monitor. [`settings`] names what is to be
//! written into the kernel's files, [`running`] reads what runs, and [`check`] compares that with
//! the plan. Nothing here changes a machine.

#![forbid(unsafe_code)]

pub mod check;
mod error;
pub mod form;
pub mod machine;
mod number_set;
mod place;
mod request;
mod result;
pub mod running;
pub mod settings;

pub use error::{Error, Impossible};
pub use number_set::NumberSet;
pub use place::plan;
pub use request::{Cut, HugePage, PoolPlacement, PoolRequest, Request, Smt};
pub use result::{Cell, Guest, HostShare, Plan, Pool, Step, Topology, Unused};
