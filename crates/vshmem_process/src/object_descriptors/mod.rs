//! Which descriptors of this process are objects of the pool.
//!
//! From below: `table` has them by their numbers; `marker` makes the file behind one, and knows
//! such a file when it comes from elsewhere; `place` finds the one that others have; `open` is this
//! process's table of them, with the pool that counts; `inherited` finds those that were open
//! before this program began.

pub mod inherited;
pub mod marker;
pub mod open;
pub mod place;
pub mod table;

pub use table::{Access, Descriptor, Identity, Object, OpenQueue};
