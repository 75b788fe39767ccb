//! The public face of a client: doorbells, datagrams, and the agent.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vshmem_sync::{Answerer, Doorbell};
use vshmem_wire::RATES;

use crate::api::client::Member;
use crate::api::errno::answer;
use crate::pool::domains::Domains;
use crate::wait::notify::{self, Asked, Listener};
use crate::wait::{agent, doorbell, sleep, waker_cpus};

impl Member {
    /// To be called by the thread that is the agent: from now on sleepers rely on it, until it ends
    /// or calls [`Member::stop_guarding`]. Where that cannot be, they go on looking once a second.
    pub fn guard_sleepers(&self) {
        agent::guard_sleepers(&self.context)
    }

    /// Sleepers no longer rely on the calling thread.
    pub fn stop_guarding(&self) {
        agent::stop_guarding(&self.context)
    }

    /// Where whoever this thread is about to wait for can run meanwhile, as found within the last
    /// tenth of a second or so.
    pub fn answerer(&self) -> Answerer {
        waker_cpus::answerer(&self.context)
    }

    /// Rings other domains over `doorbell` from now on, and has this one rung by it. Only the first
    /// one counts.
    pub fn use_doorbell(&self, doorbell: Arc<dyn Doorbell>) {
        doorbell::use_doorbell(&self.context, doorbell)
    }

    /// Tells the others where this domain can be rung, as its doorbell says now.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_address(&self) -> Result<(), Errno> {
        answer(self.pool(), doorbell::publish_address(&self.context))
    }

    /// Rings every thread slot that is waiting, and every domain.
    pub fn ring_everybody(&self) {
        doorbell::ring_everybody(&self.context)
    }

    /// Wakes those threads of this domain, or of this kernel, that sleep although they have been
    /// served: what is to be done when the doorbell has rung. Returns how many of this user's there
    /// were.
    pub fn deliver_rings(&self) -> usize {
        doorbell::deliver_rings(&self.context)
    }

    /// Whether everybody who could wake a sleeper of this domain can also ring it.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn is_rung_by_all(&self) -> Result<bool, Errno> {
        answer(self.pool(), doorbell::is_rung_by_all(&self.context))
    }

    /// Boot id of this domain's kernel, as the domain table holds it.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn boot(&self) -> Result<[u32; 4], Errno> {
        answer(self.pool(), doorbell::boot(&self.context))
    }

    /// Says where a domain of this kernel can be rung; `None`: nowhere. For whoever takes its
    /// rings. Returns whether that is new.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_for(&self, domain: u32, address: Option<u32>) -> Result<bool, Errno> {
        answer(self.pool(), doorbell::publish_for(&self.context, domain, address))
    }

    /// Takes a domain's address back for good: the doorbell that it means is out of order. Returns
    /// whether that is new.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn lose_bell(&self, domain: u32) -> Result<bool, Errno> {
        answer(self.pool(), doorbell::lose_bell(&self.context, domain))
    }

    /// Takes every address back: nobody passes rings on any more. Sleepers that can be reached are
    /// woken, so that they no longer rely on being rung.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn lose_bells(&self) -> Result<(), Errno> {
        answer(self.pool(), doorbell::lose_bells(&self.context))
    }

    /// Notes how fast this domain reaches the pool's memory, beside private memory: for whoever
    /// lists domains.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn note_rates(&self, rates: [u32; RATES]) -> Result<(), Errno> {
        answer(self.pool(), doorbell::note_rates(&self.context, rates))
    }

    /// For the agent's thread that sends: sleeps until programs have asked for others to be
    /// notified, or for at most `within`.
    ///
    /// # Errors
    /// EIO when there are no words for that.
    pub fn await_asked(&self, within: Duration) -> Result<Asked, Errno> {
        answer(self.pool(), notify::await_asked(&self.context, within))
    }

    /// Those of some domains that have threads which have been served and have not noticed yet:
    /// what was sent to them is still on its way, or lost.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn not_noticed(&self, among: Asked) -> Result<Asked, Errno> {
        answer(self.pool(), notify::not_noticed(&self.context, among))
    }

    /// Wakes the thread in [`Member::await_asked`].
    pub fn ring_agent(&self) {
        notify::ring_agent(&self.context)
    }

    /// Says that the calling agent listens for datagrams, at an address with that digest; `None`:
    /// not, or no longer.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_listening(&self, digest: Option<u32>) -> Result<(), Errno> {
        answer(self.pool(), notify::publish_listening(&self.context, digest))
    }

    /// Says which domains' agents have been heard lately. True when that is new.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_heard(&self, heard: Domains) -> Result<bool, Errno> {
        answer(self.pool(), notify::publish_heard(&self.context, heard))
    }

    /// The other domains whose agents say that they listen.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn listeners(&self) -> Result<Vec<Listener>, Errno> {
        answer(self.pool(), notify::listeners(&self.context))
    }

    /// To be called as a signal handler is entered: a call that it has interrupted is over, as far
    /// as others can see, before the handler runs.
    pub fn interrupt(&self) {
        sleep::interrupt(&self.context)
    }
}
