//! What the locks need of the layer above: sleeping by address, waking, and who has died.

use rustix::io::Errno;
use vshmem_mem::{AtomicU64, Deadline};

use super::owner::LockOwner;

/// How a wait by address ended. The caller looks at its word again, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// Another thread has woken this one.
    Woken {
        /// Whether others were left asleep at the same address.
        more: bool,
    },
    /// The word has changed.
    Changed,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran, or a cancellation was asked for.
    Interrupted,
}

/// What a wake-up has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Woke {
    /// Threads that were woken.
    pub threads: u32,
    /// Whether others were left asleep at the same address.
    pub more: bool,
}

/// Waiting by address.
pub trait Futex {
    /// Looks while `waits`, for about as long as a sleep costs. True once it does not wait any
    /// more. `wakers`: threads that have to run until then, 1 where it is not known. Leaves no
    /// trace for others.
    fn spin(&self, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool;

    /// Sleeps at the address of `word` while `waits`, which is asked once more when this thread can
    /// be found by [`Futex::wake`], and whenever a client has ended: so that must not hold for a
    /// thread that has to do something about the end of one. Ends at times without a reason.
    /// A thread that was found and does not sleep passes its wake-up on to one that does: the word
    /// had changed before, and the wake-up may be of a later change.
    ///
    /// # Errors
    /// When the address is in no pool (any more), or the pool is damaged.
    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno>;

    /// Wakes at most `most` threads that sleep at the address of `word`, those first that came
    /// first. Reads nothing at that address: the memory may have been given back.
    fn wake(&self, word: &AtomicU64, most: u32) -> Woke;

    /// Whether the client of a lock's owner has ended, or its domain was evicted.
    fn has_ended(&self, owner: LockOwner) -> bool;
}
