//! Models of the protocols, run through every order of events that a few preemptions can bring
//! about: a file for each.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p vshmem_sync --test loom`

#![cfg(loom)]

mod addresses;
mod lock;
mod message_ring;
mod model;
mod process_shared;
mod ring_steps;
mod semaphore;
mod semaphore_array;
mod thread_slot;
mod wait;
