//! A small guest for programs with little memory.

use std::path::PathBuf;

use crate::site::Guests;

/// The small guest, with the programs that it has been given.
pub(super) struct Cell {
    pub(super) guests: Guests,
    pub(super) mebibytes: u64,
    pub(super) delivered: Vec<PathBuf>,
}
