//! The public face of a client: doorbells, datagrams, and the agent.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vshmem_sync::{Doorbell, WakerCpu};
use vshmem_wire::RATES;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::pool::domains::DomainSet;
use crate::wait::datagrams::{self, Listener, NotifySet};
use crate::wait::{doorbell, sleep, waker_cpus};

impl Client {
    /// To be called by the thread that is the agent: from now on waiters rely on it, until it ends
    /// or calls [`Client::stop_guarding`]. Where that is impossible, they go on polling once a
    /// second.
    pub fn guard_waiters(&self) {
        sleep::guard_waiters(&self.context)
    }

    /// Waiters no longer rely on the calling thread.
    pub fn stop_guarding(&self) {
        sleep::stop_guarding(&self.context)
    }

    /// Where a thread that may wake this one can run while this one spins, as found within
    /// the last tenth of a second or so.
    pub fn waker_cpu(&self) -> WakerCpu {
        waker_cpus::waker_cpu(&self.context)
    }

    /// Notifies other domains over `doorbell` from now on, and has this one notified by it. Only
    /// the first one counts.
    pub fn use_doorbell(&self, doorbell: Arc<dyn Doorbell>) {
        doorbell::use_doorbell(&self.context, doorbell)
    }

    /// Tells the others where this domain can be notified, as its doorbell says now.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn publish_address(&self) -> Result<(), Errno> {
        answer(self.pool(), doorbell::publish_address(&self.context))
    }

    /// Wakes every thread slot that is waiting, and notifies every domain.
    pub fn wake_every_waiter(&self) {
        doorbell::wake_every_waiter(&self.context)
    }

    /// Wakes those threads of this domain, or of this kernel, that sleep although they have been
    /// served. This is what an agent does on a notification. Returns how many of them belong to
    /// this user.
    pub fn deliver_wakeups(&self) -> usize {
        doorbell::deliver_wakeups(&self.context)
    }

    /// Whether every thread that could wake a waiter of this domain can also notify it.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn is_woken_by_all(&self) -> Result<bool, Errno> {
        answer(self.pool(), sleep::is_woken_by_all(&self.context))
    }

    /// Boot id of this domain's kernel, as the domain table holds it.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn boot(&self) -> Result<[u32; 4], Errno> {
        answer(self.pool(), doorbell::boot(&self.context))
    }

    /// Says where a domain of this kernel can be notified; `None`: nowhere. Called by the process
    /// that receives its notifications. Returns whether that is new.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn publish_for(&self, domain: u32, address: Option<u32>) -> Result<bool, Errno> {
        answer(self.pool(), doorbell::publish_for(&self.context, domain, address))
    }

    /// Withdraws a domain's address for good: its doorbell no longer works. Returns whether that is
    /// new.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lose_doorbell(&self, domain: u32) -> Result<bool, Errno> {
        answer(self.pool(), doorbell::lose_doorbell(&self.context, domain))
    }

    /// Withdraws every address: notifications are no longer forwarded. Waiters that can be reached
    /// are woken, so that they no longer rely on being notified.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn lose_doorbells(&self) -> Result<(), Errno> {
        answer(self.pool(), doorbell::lose_doorbells(&self.context))
    }

    /// Notes how fast this domain reaches the pool's memory, beside private memory: for listings of
    /// domains.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn note_rates(&self, rates: [u32; RATES]) -> Result<(), Errno> {
        answer(self.pool(), doorbell::note_rates(&self.context, rates))
    }

    /// For the agent's thread that sends: sleeps until programs have asked for others to be
    /// notified, or for at most `within`.
    ///
    /// # Errors
    /// EIO when there are no words for that.
    pub fn await_asked(&self, within: Duration) -> Result<NotifySet, Errno> {
        answer(self.pool(), datagrams::await_asked(&self.context, within))
    }

    /// Which of these domains have a thread that has been served and still sleeps: the datagram to
    /// that domain is still on its way, or lost.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn not_noticed(&self, among: NotifySet) -> Result<NotifySet, Errno> {
        answer(self.pool(), datagrams::not_noticed(&self.context, among))
    }

    /// Wakes the thread in [`Client::await_asked`].
    pub fn wake_agent(&self) {
        datagrams::wake_agent(&self.context)
    }

    /// Says that the calling agent listens for datagrams, at an address with that digest; `None`:
    /// not, or no longer.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn publish_listening(&self, digest: Option<u32>) -> Result<(), Errno> {
        answer(self.pool(), datagrams::publish_listening(&self.context, digest))
    }

    /// Says which domains' agents have been heard lately. True when that is new.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn publish_heard(&self, heard: DomainSet) -> Result<bool, Errno> {
        answer(self.pool(), datagrams::publish_heard(&self.context, heard))
    }

    /// The other domains whose agents say that they listen.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn listeners(&self) -> Result<Vec<Listener>, Errno> {
        answer(self.pool(), datagrams::listeners(&self.context))
    }

    /// To be called as a signal handler is entered: a call that it has interrupted is over, as far
    /// as others can see, before the handler runs.
    pub fn interrupt(&self) {
        sleep::interrupt(&self.context)
    }
}
