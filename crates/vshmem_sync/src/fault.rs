//! What can go wrong below the level of errno.
//!
//! What is normal is no fault: a semaphore that would block, a ring that is full or empty and a
//! sleep that times out are values of their own (`Operated`, `Tail`, `ParkResult`). The layer above
//! maps a fault to an errno.

use std::convert::Infallible;

use vshmem_mem::OutOfPool;
use vshmem_wire::NoRow;

/// Why a step on shared state did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Hostile: a peer wrote something that cannot be. The layout tells which table the offset lies
    /// in.
    Corrupt {
        /// Bytes from the start of the pool.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
    /// This process is no active client any more: its domain was evicted while it was paused.
    Evicted,
    /// The system's: the kernel refuses the sleep, with this errno. A filter of seccomp(2) does.
    Refused(i32),
    /// Normal, for a change that may become long: the intent record has no room for it, and it is
    /// to be made again with more.
    TooLong,
    /// Ours: a caller has asked for what it must not ask for. What that was.
    Misuse(&'static str),
}

impl Fault {
    /// What is corrupt at a place, or an offset.
    #[must_use]
    pub fn corrupt(at: impl Into<u64>, what: &'static str) -> Self {
        Self::Corrupt { offset: at.into(), what }
    }
}

impl From<OutOfPool> for Fault {
    fn from(error: OutOfPool) -> Self {
        Self::Corrupt { offset: error.offset, what: "an offset outside the pool" }
    }
}

impl From<NoRow> for Fault {
    fn from(error: NoRow) -> Self {
        Self::Corrupt { offset: error.table, what: "an index past the end of this table" }
    }
}

impl From<Infallible> for Fault {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
