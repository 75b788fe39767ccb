//! The front of the lab: what a command line calls.

mod ask;
mod down;
mod handle;
mod up;
mod users;

pub use handle::Lab;
