//! The wait queue of an address.

use rustix::io::Errno;
use vshmem_sync::Fault;
use vshmem_wire::{FutexBucket, Layout, Place, RawCell, field, futex_bucket};

use crate::wait::wait_queue::WaitQueue;

/// The wait queue of all addresses with one hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub index: u32,
    pub at: Place<FutexBucket>,
}

impl Bucket {
    /// The one of the word at `offset` in the pool.
    ///
    /// # Errors
    /// EINVAL when no word of a program lies there.
    pub fn of(layout: &Layout, offset: u64) -> Result<Self, Errno> {
        let data = layout.data.offset()..layout.data.end();
        if !data.contains(&offset) || !offset.is_multiple_of(4) {
            return Err(Errno::INVAL);
        }
        let index = futex_bucket(offset, layout.futexes.count);
        Self::nth(layout, index).map_err(|_| Errno::INVAL)
    }

    /// The one of a cell of the pool's own tables.
    ///
    /// # Errors
    /// When there are no buckets.
    pub fn of_cell(layout: &Layout, at: Place<RawCell>) -> Result<Self, Fault> {
        Self::of_any(layout, at.offset())
    }

    /// The one of whatever a thread sleeps at: a word of a program, or a cell of the pool's own.
    ///
    /// # Errors
    /// When there are no buckets.
    pub fn of_any(layout: &Layout, offset: u64) -> Result<Self, Fault> {
        Self::nth(layout, futex_bucket(offset, layout.futexes.count))
    }

    /// The wait queue of that number.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn nth(layout: &Layout, index: u32) -> Result<Self, Fault> {
        Ok(Self { index, at: layout.futexes.row(index)? })
    }

    /// The wait queue of the threads that sleep at words of this bucket.
    pub fn wait_queue(self) -> WaitQueue {
        WaitQueue {
            head: field!(self.at, FutexBucket, head),
            tail: field!(self.at, FutexBucket, tail),
            lock: field!(self.at, FutexBucket, lock),
            length: Some(self.length()),
        }
    }

    /// The cell that counts the waiters.
    pub fn length(self) -> Place<RawCell> {
        field!(self.at, FutexBucket, count)
    }
}
