//! The attach table: which addresses of this process are pieces of attached segments.
//!
//! The kernel counts a mapping of a segment as an attach, and cuts mappings in pieces where a
//! program asks for something about a part of one. The table follows it. It knows neither the
//! pool nor the kernel, so that a test can hold them against a model of mappings.

mod cut;
mod lock;
mod piece;
mod slots;
mod table;
mod units;

pub use cut::{Counts, advance, recut, take_range};
pub use lock::{
    Attaching, Changing, begin_child, changes, hold_for_fork, pause, read_consistent,
    release_after_fork, resume,
};
pub use piece::{Marks, Piece, Rights};
pub use slots::pause_between_looks;
pub use table::{Table, TooMany};
pub use units::without_others;
