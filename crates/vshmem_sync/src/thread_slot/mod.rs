//! Thread slots, and the lists of what a client has claimed.

mod client_list;
mod slot_guard;

pub use client_list::{Held, HeldBy};
pub use slot_guard::{Claimant, Seat, Seats, held_thread};
