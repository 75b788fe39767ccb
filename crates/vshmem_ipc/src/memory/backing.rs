//! What a link does for the memory behind new segments.

use rustix::io::Errno;

/// Readies data pages before they are given to a segment. Implemented over a link.
pub trait Backing {
    /// Makes sure that `bytes` at `offset` are backed by memory, and hold zeros when `dirty`.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM when they cannot be backed.
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno>;

    /// Writes zeros over so many bytes, from any offset on.
    ///
    /// # Errors
    /// ENOSPC where that cannot be done; whatever mapping them gives.
    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        let _ = (offset, bytes);
        Err(Errno::NOSPC)
    }

    /// Copies whole pages to others.
    ///
    /// # Errors
    /// As [`Backing::zero`].
    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        let _ = (from, to, bytes);
        Err(Errno::NOSPC)
    }

    /// Where in the pool so many bytes are cheapest for this process: it has them mapped.
    fn at_hand(&self, bytes: u64) -> Option<u64> {
        let _ = bytes;
        None
    }

    /// The host's node on which the calling thread runs, if that is known: pages for it are looked
    /// for there first. Asked where the pool has a range of pages for each of several nodes.
    fn node(&self) -> Option<u32> {
        None
    }
}
