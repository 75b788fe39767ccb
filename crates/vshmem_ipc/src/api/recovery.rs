//! The public face of a client: what agents and operators do for those who have died, and the
//! repair.

use rustix::io::Errno;
use vshmem_wire::ClientName;

use crate::api::client::Member;
use crate::api::errno::answer;
use crate::check::repair;
use crate::listing::rows::Resident;
use crate::recovery::{agent_watch, domain, exiting, reap, reclaim};

impl Member {
    /// Mends what a crash can leave behind: carries out what was committed, buries the dead, takes
    /// removed objects apart, serves sleepers that could go on. Returns, in sentences, what is
    /// still not right: nothing, unless a peer has written nonsense or somebody works in the pool
    /// just now.
    ///
    /// # Errors
    /// EIO when the pool cannot be read at all, ENOMEM when it has no thread slot left.
    pub fn repair(&self) -> Result<Vec<String>, Errno> {
        answer(self.pool(), repair::repair(&self.context))
    }

    /// Notes that this process is about to end.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn announce_end(&self) -> Result<(), Errno> {
        answer(self.pool(), exiting::announce_end(&self.context))
    }

    /// Whether somebody may have announced its end. Costs one load.
    #[must_use]
    #[inline]
    pub fn somebody_leaves(&self) -> bool {
        exiting::somebody_leaves(&self.context)
    }

    /// Buries the processes of this domain that had announced their end and have come to it, as
    /// `gone` says by their pids. Without the heap. True when there was one.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_leavers(&self, gone: &dyn Fn(u32) -> bool) -> Result<bool, Errno> {
        answer(self.pool(), exiting::bury_leavers(&self.context, gone))
    }

    /// Buries those clients of this domain with a pid that are no more, as `gone` says by pid and
    /// start time. False if there are none.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_process(&self, pid: u32, gone: fn(u32, u64) -> bool) -> Result<bool, Errno> {
        answer(self.pool(), reap::bury_process(&self.context, pid, gone))
    }

    /// Buries one client. By name: its slot may have changed hands since it was found dead.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury(&self, client: ClientName) -> Result<(), Errno> {
        answer(self.pool(), reap::bury(&self.context, client))
    }

    /// Buries the client that a census has found dead, unless its slot has changed hands since.
    /// False when it has.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_resident(&self, dead: &Resident) -> Result<bool, Errno> {
        answer(self.pool(), reap::bury_resident(&self.context, dead))
    }

    /// Frees the thread slots of processes of a domain that have died while they were joining, as
    /// `gone` says by their pids.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn free_strangers(&self, domain: u32, gone: &dyn Fn(u32) -> bool) -> Result<(), Errno> {
        answer(self.pool(), domain::free_strangers(&self.context, domain, gone))
    }

    /// Declares whatever domain is in a slot now dead, and buries all its clients.
    ///
    /// # Errors
    /// ENOENT when there is no such domain; EIO when the pool does not make sense.
    pub fn bury_domain(&self, domain: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::bury_domain(&self.context, domain))
    }

    /// As [`Member::bury_domain`], unless the slot has been taken anew since it had this boot
    /// epoch.
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn bury_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::bury_epoch(&self.context, domain, epoch))
    }

    /// Declares a domain evicted: its adjustments are applied and its sleepers leave, and what it
    /// has attached stays as it is until its death is confirmed by [`Member::bury_domain`].
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn evict_domain(&self, domain: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::evict_domain(&self.context, domain))
    }

    /// As [`Member::evict_domain`], unless the slot has been taken anew since it had this boot
    /// epoch.
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn evict_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        answer(self.pool(), domain::evict_epoch(&self.context, domain, epoch))
    }

    /// Looks at the next part of the tables for what carries the name of a client that has ended,
    /// and takes it back; for the agent.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn reclaim_some(&self) -> Result<(), Errno> {
        answer(self.pool(), reclaim::reclaim_some(&self.context))
    }

    /// Takes back everything that carries the name of a client that has ended; for the repair, and
    /// tests.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn reclaim_all(&self) -> Result<(), Errno> {
        answer(self.pool(), reclaim::reclaim_all(&self.context))
    }

    /// Looks after the objects at which threads of this domain sleep: makes up for those who died
    /// halfway. Lost rings are [`Member::deliver_rings`]' part.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn tend_sleepers(&self) -> Result<(), Errno> {
        answer(self.pool(), agent_watch::tend_sleepers(&self.context))
    }
}
