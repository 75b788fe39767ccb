//! Making another domain look again.

use std::fmt::Debug;

use rustix::io::Errno;

/// Rings other domains over a link. A ring says "look again" and no more: it may be lost, merged
/// with others, or made up, because the truth is in the pool.
pub trait Doorbell: Debug + Send + Sync {
    /// Where this domain can be rung; `None` when it cannot.
    fn own_address(&self) -> Option<u32>;

    /// Rings the domain at an address. Called with changes already made visible; must not use the
    /// heap.
    ///
    /// # Errors
    /// What the device says. A ring that finds nobody is not an error.
    fn ring(&self, address: u32) -> Result<(), Errno>;
}
