//! Notifying another domain.

use std::fmt::Debug;

use rustix::io::Errno;

/// Notifies other domains over a link. A notification carries no data: it may be lost, merged with
/// others, or made up, because the truth is in the pool.
pub trait Doorbell: Debug + Send + Sync {
    /// Where this domain can be notified; `None` when it cannot.
    fn own_address(&self) -> Option<u32>;

    /// Notifies the domain at an address. Called with changes already made visible; must not use
    /// the heap.
    ///
    /// # Errors
    /// What the device says. A notification that reaches no thread is not an error.
    fn notify(&self, address: u32) -> Result<(), Errno>;
}
