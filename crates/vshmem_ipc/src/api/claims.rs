//! The public face of a client: claims on file locks of POSIX objects.

use rustix::io::Errno;
use vshmem_mem::Deadline;
use vshmem_sync::WaitEnd;
use vshmem_wire::LockMode;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::claims::ask::{self, Claimed, LockRequest, LockWant, Settled};
use crate::claims::pieces::LockRange;
use crate::claims::recall::{self, Given, Recall};

impl Client {
    /// Whether the place alone may grant locks of the object: `hint` is where that was seen last.
    /// To be asked again behind the kernel's lock.
    ///
    /// # Errors
    /// EINVAL when there is no such object; EIO for an evicted domain.
    pub fn lock_is_sole(&self, request: &LockRequest, hint: &mut u32) -> Result<bool, Errno> {
        answer(self.pool(), ask::is_sole(&self.context, request, hint))
    }

    /// Takes the claim for a lock, or asks for it.
    ///
    /// # Errors
    /// ENOLCK when the table has no row left, or the place would have too many.
    pub fn lock_ask(&self, request: &LockRequest) -> Result<Claimed, Errno> {
        answer(self.pool(), ask::ask(&self.context, request))
    }

    /// What has become of a want.
    ///
    /// # Errors
    /// As [`Client::lock_ask`].
    pub fn lock_settle(&self, request: &LockRequest, want: LockWant) -> Result<Settled, Errno> {
        answer(self.pool(), ask::settle(&self.context, request, want))
    }

    /// Gives a want back: the lock is had, or is not wanted any more.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_give_back(&self, want: LockWant) -> Result<(), Errno> {
        answer(self.pool(), ask::give_back(&self.context, want))
    }

    /// Sleeps until a want is answered, or the deadline.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_wait(
        &self,
        want: LockWant,
        deadline: Deadline,
        signals_seen: u32,
    ) -> Result<WaitEnd, Errno> {
        answer(self.pool(), ask::wait_for_answer(&self.context, want, deadline, signals_seen))
    }

    /// The parts of a lock for which the place has no claim.
    ///
    /// # Errors
    /// As [`Client::lock_ask`].
    pub fn lock_uncovered(
        &self,
        request: &LockRequest,
    ) -> Result<impl Iterator<Item = LockRange> + use<>, Errno> {
        answer(self.pool(), ask::uncovered(&self.context, request)).map(IntoIterator::into_iter)
    }

    /// To be called when a lock was given up: a client that waits for it in another place is told.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_given_up(&self) -> Result<(), Errno> {
        answer(self.pool(), ask::ring_own_agent(&self.context))
    }

    /// Gives this domain's agent a reason to look at the lock table.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_ring(&self) -> Result<(), Errno> {
        answer(self.pool(), ask::ring_own(&self.context))
    }

    /// Counts when this domain's agent begins and ends to hold locks itself: odd while it does.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_probes(&self) -> Result<u32, Errno> {
        answer(self.pool(), ask::probes(&self.context))
    }

    /// For an agent: all that other places want of this domain's claims.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_recalls(&self) -> Result<Vec<Recall>, Errno> {
        answer(self.pool(), recall::recalls(&self.context))
    }

    /// For an agent: gives a claim up. It holds the lock itself meanwhile.
    ///
    /// # Errors
    /// ENOLCK when there is no row for what is left.
    pub fn lock_give_up(&self, recall: &Recall) -> Result<Given, Errno> {
        answer(self.pool(), recall::give_up(&self.context, recall))
    }

    /// For an agent: says to a client that does not wait what is in its way.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_refuse(
        &self,
        recall: &Recall,
        mode: LockMode,
        range: LockRange,
    ) -> Result<(), Errno> {
        answer(self.pool(), recall::refuse(&self.context, recall, mode, range))
    }

    /// For an agent: no process of this domain has the place open any more.
    ///
    /// # Errors
    /// ENOMEM when there is no thread slot to work from.
    pub fn lock_forget_place(&self, recall: &Recall) -> Result<(), Errno> {
        answer(self.pool(), recall::forget_place(&self.context, recall))
    }

    /// For an agent: it is about to hold locks itself, or does not any more.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_probe(&self, begins: bool) -> Result<(), Errno> {
        answer(self.pool(), recall::probe(&self.context, begins))
    }

    /// For an agent: how often it was given a reason to look at the lock table.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_bell(&self) -> Result<u32, Errno> {
        answer(self.pool(), recall::bell(&self.context))
    }

    /// For an agent: how many rows of the lock table were ever used.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_rows_used(&self) -> Result<u32, Errno> {
        answer(self.pool(), recall::rows_used(&self.context))
    }

    /// For an agent: sleeps until it is rung again.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lock_wait_for_bell(&self, seen: u32, deadline: Deadline) -> Result<WaitEnd, Errno> {
        answer(self.pool(), recall::wait_for_bell(&self.context, seen, deadline))
    }
}
