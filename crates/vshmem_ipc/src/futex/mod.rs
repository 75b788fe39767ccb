//! Waiting by address: what process-shared locks in the memory of programs sleep on.
//!
//! The words themselves are the programs'. Nothing here reads or writes one: a thread that is about
//! to sleep asks its caller whether it is still to.

mod bucket;
pub(crate) mod end;
pub(crate) mod owner;
pub(crate) mod wait;
pub(crate) mod wake;

pub(crate) use bucket::Bucket;
