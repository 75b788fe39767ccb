//! The public face of a client: waiting by address.

use rustix::io::Errno;
use vshmem_mem::Deadline;
use vshmem_sync::{LockOwner, WaitEnd, Woke};

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::futex::{owner, wait, wake};

impl Client {
    /// Looks while `waits`, for about as long as a sleep costs. True once it does not wait any
    /// more. `wakers`: threads that have to run until then.
    pub fn futex_spin(&self, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        wait::spin(&self.context, wakers, waits)
    }

    /// Sleeps at the word at `offset` in the pool, in a segment, while `waits`: that is asked again
    /// when this thread can be found by [`Client::futex_wake`]. The word itself is the caller's to
    /// look at. `signals_seen` is what `vshmem_mem::signals_handled` returned when the call began.
    ///
    /// # Errors
    /// EINVAL when there is no such word; EIO when the pool is corrupt.
    pub fn futex_wait(
        &self,
        offset: u64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
        signals_seen: u32,
    ) -> Result<WaitEnd, Errno> {
        answer(self.pool(), wait::wait(&self.context, offset, waits, deadline, signals_seen))
    }

    /// Wakes at most `most` threads that sleep at the word at `offset`, those first that came
    /// first.
    ///
    /// # Errors
    /// As [`Client::futex_wait`]; ENOMEM when there is no thread slot to work from.
    pub fn futex_wake(&self, offset: u64, most: u32) -> Result<Woke, Errno> {
        answer(self.pool(), wake::wake(&self.context, offset, most))
    }

    /// Whether the client of a lock's owner has ended, or was evicted with its domain.
    #[must_use]
    pub fn has_ended(&self, owner: LockOwner) -> bool {
        owner::has_ended(&self.context, owner)
    }
}
