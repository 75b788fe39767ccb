//! What can go wrong below the level of errno.

use vshmem_mem::OutOfPool;

/// Why a step on shared state did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Somebody took the lock over. Not an error: the step starts again.
    Lost,
    /// A peer wrote something that cannot be. The offset of the word, and what was wrong.
    Corrupt {
        /// Bytes from the start of the pool.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
    /// This process is no member in good standing any more: it was evicted while it was paused.
    Evicted,
    /// The kernel refuses the sleep, with this errno: a filter of seccomp(2).
    Refused(i32),
    /// The step needs a longer intent record than it was given.
    TooLong,
}

impl Fault {
    /// A corrupt word.
    #[must_use]
    pub const fn corrupt(offset: u64, what: &'static str) -> Self {
        Self::Corrupt { offset, what }
    }
}

impl From<OutOfPool> for Fault {
    fn from(error: OutOfPool) -> Self {
        Self::Corrupt { offset: error.offset, what: "an offset outside the pool" }
    }
}
