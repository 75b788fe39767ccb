//! This process's place in the pool: how it joins, what it is while it runs, forks and executes,
//! and how it leaves.
//!
//! `load` begins. `current` is what calls ask for. `join` sets it up, `child` makes a fork's child
//! a client of its own, `exec`, `exit` and `reap` are the ends; `outside` tells of programs that do
//! not come along. `soft_limits` finds what joining takes. `caller`, `home_namespace`, `cancel`,
//! `handlers` and `confined` follow what the program and its threads have asked for.

pub mod adjustments;
pub mod agent;
pub mod caller;
pub mod cancel;
pub mod child;
pub mod confined;
pub mod credential_changes;
pub mod current;
pub mod departure;
pub mod environment;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod handlers;
pub mod home_namespace;
pub mod join;
pub mod load;
pub mod outside;
pub mod reap;
pub mod route;
pub mod soft_limits;
pub mod thread_words;
