//! What is asked of guests of every kind, for the tests of other kinds: each names in its `main.rs`
//! what to boot and what to find there.

pub mod commands;
pub mod death;
pub mod leftovers;
pub mod peer;
pub mod rig;
pub mod run;
pub mod world;
