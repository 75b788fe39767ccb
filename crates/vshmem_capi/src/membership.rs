//! What a pool's handle knows of its domain leaving the pool.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether this process takes part, and who is told when its domain leaves.
#[derive(Debug, Default)]
pub struct Membership {
    /// This process has parted.
    pub has_parted: AtomicBool,
    /// Readable when the domain leaves.
    pub notice: OnceLock<Arc<OwnedFd>>,
    /// A call was given for that.
    pub has_callback: AtomicBool,
}

impl Membership {
    /// Whether this process has parted from the pool.
    pub fn has_parted(&self) -> bool {
        self.has_parted.load(Ordering::Acquire)
    }
}
