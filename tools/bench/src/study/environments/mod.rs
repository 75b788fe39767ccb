//! Real places for cases: this kernel, and guests of a lab that is booted when the first case needs
//! it.

mod alone;
mod cell;
mod confined;
mod filler;
mod fresh;
mod leftovers;
mod mpirun;
mod places;
mod roles;
mod run;
mod team;
mod traffic;

pub use leftovers::{clear_leftovers, this_process};
pub use places::{GUESTS, Places, Setup};
