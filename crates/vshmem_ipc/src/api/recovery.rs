//! The public face of a client: what agents and operators do for those who have died, and the
//! repair.

use rustix::io::Errno;
use vshmem_wire::{ClientId, DomainState};

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::check::repair;
use crate::listing::rows::LocalClient;
use crate::recovery::{agent_watch, departure, domain, exiting, reap, reclaim};

impl Client {
    /// Repairs what a crash can leave behind: carries out what was committed, reaps dead clients,
    /// takes removed objects apart, serves waiters that could go on. Returns, in sentences, what is
    /// still not right: nothing, unless a peer has corrupted the pool or a client is using it just
    /// now.
    ///
    /// # Errors
    /// EIO when the pool cannot be read at all, ENOMEM when it has no thread slot left.
    pub fn repair(&self) -> Result<Vec<String>, Errno> {
        answer(self.pool(), repair::repair(&self.context))
    }

    /// Notes that this process is about to end.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn announce_end(&self) -> Result<(), Errno> {
        answer(self.pool(), exiting::announce_end(&self.context))
    }

    /// Whether a client may have announced its exit. Costs one load.
    #[must_use]
    #[inline]
    pub fn has_exiting_clients(&self) -> bool {
        exiting::has_exiting_clients(&self.context)
    }

    /// Reaps the processes of this domain that had announced their end and have come to it, as
    /// `gone` says by their pids. Without the heap. True when there was one.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reap_exiting(&self, gone: &dyn Fn(u32) -> bool) -> Result<bool, Errno> {
        answer(self.pool(), exiting::reap_exiting(&self.context, gone))
    }

    /// Reaps those clients of this domain with a pid that have ended, as `gone` says by pid and
    /// start time. False if there are none.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reap_process(&self, pid: u32, gone: fn(u32, u64) -> bool) -> Result<bool, Errno> {
        answer(self.pool(), reap::reap_process(&self.context, pid, gone))
    }

    /// Reaps one client, by its id: another client may have its slot since it was found dead.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reap(&self, client: ClientId) -> Result<(), Errno> {
        answer(self.pool(), reap::reap(&self.context, client))
    }

    /// Reaps the client that a listing has shown to be dead, unless its slot has changed hands
    /// since. False when it has.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reap_local(&self, dead: &LocalClient) -> Result<bool, Errno> {
        answer(self.pool(), reap::reap_local(&self.context, dead))
    }

    /// Frees the thread slots of processes of a domain that have died while they were joining, as
    /// `gone` says by their pids.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn free_joining_slots(&self, domain: u32, gone: &dyn Fn(u32) -> bool) -> Result<(), Errno> {
        answer(self.pool(), domain::free_joining_slots(&self.context, domain, gone))
    }

    /// Declares whatever domain is in a slot now dead, and reaps all its clients.
    ///
    /// # Errors
    /// ENOENT when there is no such domain; EIO when the pool is corrupt.
    pub fn reap_domain(&self, domain: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::reap_domain(&self.context, domain))
    }

    /// As [`Client::reap_domain`], unless the slot has been taken anew since it had this boot
    /// epoch.
    ///
    /// # Errors
    /// As [`Client::reap_domain`].
    pub fn reap_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::reap_epoch(&self.context, domain, epoch))
    }

    /// Declares a domain evicted: its adjustments are applied and its waiters leave, and what it
    /// has attached stays as it is until its death is confirmed by [`Client::reap_domain`].
    ///
    /// # Errors
    /// As [`Client::reap_domain`].
    pub fn evict_domain(&self, domain: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::evict_domain(&self.context, domain))
    }

    /// Evicts this domain, which processes of several machines believe to be theirs: copies of one.
    /// Its name is taken from it, so that the end of one of them is not taken for the end of all.
    ///
    /// # Errors
    /// As [`Client::reap_domain`].
    pub fn evict_twins(&self) -> Result<(), Errno> {
        answer(self.pool(), domain::evict_twins(&self.context))
    }

    /// As [`Client::evict_domain`], unless the slot has been taken anew since it had this boot
    /// epoch.
    ///
    /// # Errors
    /// As [`Client::reap_domain`].
    pub fn evict_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::evict_epoch(&self.context, domain, epoch))
    }

    /// Looks at the next part of the tables for what carries the id of a client that has ended, and
    /// takes it back; for the agent.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reclaim_some(&self) -> Result<(), Errno> {
        answer(self.pool(), reclaim::reclaim_some(&self.context))
    }

    /// Takes back everything that carries the id of a client that has ended; for the repair, and
    /// tests.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn reclaim_all(&self) -> Result<(), Errno> {
        answer(self.pool(), reclaim::reclaim_all(&self.context))
    }

    /// Recovers the objects at which threads of this domain sleep, after threads that died in the
    /// middle of a change. Lost wake-ups are [`Client::deliver_wakeups`]' part.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn recover_waiters(&self) -> Result<(), Errno> {
        answer(self.pool(), agent_watch::recover_waiters(&self.context))
    }

    /// A domain begins to leave the pool: what is new is refused there. Its agent carries the rest
    /// out, or else the caller does. False when no such domain takes part.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn begin_leave(&self, domain: u32, epoch: u32, by_agent: bool) -> Result<bool, Errno> {
        answer(self.pool(), departure::begin(&self.context, domain, epoch, by_agent))
    }

    /// Whether this domain's agent is to carry out that it leaves.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn is_drained(&self) -> Result<bool, Errno> {
        answer(self.pool(), departure::is_drained(&self.context))
    }

    /// This domain has left: its clients but this one make no more changes, and their calls end
    /// with EIDRM. False when it does not leave.
    ///
    /// # Errors
    /// EIO when the pool is corrupt; EIDRM when another process carries this out.
    pub fn depart(&self) -> Result<bool, Errno> {
        let (domain, epoch) = (self.context.domain(), self.context.epoch());
        answer(self.pool(), departure::depart(&self.context, domain, epoch))
    }

    /// This domain takes part again. False when it had not left.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn come_back(&self) -> Result<bool, Errno> {
        answer(self.pool(), departure::come_back(&self.context))
    }

    /// Whether this domain leaves the pool, or has left it. One load of the pool.
    #[must_use]
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.pool().own_domain_leaves()
    }

    /// Whether this domain has left the pool: nothing of it may stay mapped.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.pool().own_domain_state() == Some(DomainState::Left)
    }

    /// What is new to this process is refused while its domain leaves.
    #[inline]
    pub(crate) fn refuse_while_leaving(&self) -> Result<(), Errno> {
        if self.is_leaving() { Err(Errno::IDRM) } else { Ok(()) }
    }

    /// From now on a leave gives this process time to part from the pool.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn ask_for_notice(&self) -> Result<(), Errno> {
        answer(self.pool(), departure::ask_for_notice(&self.context))
    }

    /// Pids of the clients of this domain that have asked for that, and not parted.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn to_be_told(&self) -> Result<Vec<u32>, Errno> {
        answer(self.pool(), departure::to_be_told(&self.context))
    }
}
