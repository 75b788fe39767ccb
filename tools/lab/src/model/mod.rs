//! The words in which all parts of a lab talk about it. Plain data: nothing here does anything.

pub(crate) mod boot;
mod listing;
mod missing;
pub(crate) mod names;
mod options;

pub use listing::{GuestListing, GuestState, Listing};
pub use missing::Missing;
pub use options::{Acceleration, Device, GuestKind, Server, UpOptions};
