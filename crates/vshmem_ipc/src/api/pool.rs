//! The public face of a pool: listings and checks.

use rustix::io::Errno;

use crate::api::errno::answer;
use crate::check;
use crate::check::checker::Finding;
use crate::check::space::{self, PoolSpace};
use crate::listing::rows::{
    ClientRow, DomainKey, DomainRow, LocalClient, LockRow, ObjectActivity, ObjectDetails,
    ObjectRow, ThreadActivity, Usage, WaiterRow,
};
use crate::listing::{activity, client_rows, domain_rows, object_rows};
use crate::pool::clients::Process;
use crate::pool::id::Kind;
use crate::pool::open::Pool;
use crate::pool::wide_pid::WidePid;

impl Pool {
    /// All member domains, past ones included.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn domains(&self) -> Result<Vec<DomainRow>, Errno> {
        answer(self, domain_rows::domains(self))
    }

    /// The domains that have not been declared dead; without looking at any client.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn domain_keys(&self) -> Result<Vec<DomainKey>, Errno> {
        answer(self, domain_rows::domain_keys(self))
    }

    /// Slots and boot epochs of the domains that have been declared dead. Something may be left of
    /// one whose reaper has died as well: [`Client::reap_epoch`] goes on with it.
    ///
    /// [`Client::reap_epoch`]: crate::Client::reap_epoch
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn dead_domains(&self) -> Result<Vec<(u32, u32)>, Errno> {
        answer(self, domain_rows::dead_domains(self))
    }

    /// Boot epoch of the domain in a slot; `None` when none takes part there: it is free, dead or
    /// evicted.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn domain_epoch(&self, index: u32) -> Result<Option<u32>, Errno> {
        answer(self, domain_rows::domain_epoch(self, index))
    }

    /// The same of one that takes part (`true`), or has left in good order.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn domain_standing(&self, index: u32) -> Result<Option<(u32, bool)>, Errno> {
        answer(self, domain_rows::domain_standing(self, index))
    }

    /// All clients.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn clients(&self) -> Result<Vec<ClientRow>, Errno> {
        answer(self, client_rows::clients(self))
    }

    /// Numbers of the files that clients of a user have their wait words in, as the pool has them.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn wait_files_of(&self, uid: u32) -> Result<Vec<u32>, Errno> {
        answer(self, client_rows::wait_files_of(self, uid))
    }

    /// All waiters.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn waiters(&self) -> Result<Vec<WaiterRow>, Errno> {
        answer(self, client_rows::waiters(self))
    }

    /// Clients that have a segment attached, with how often.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn attached_to(&self, segment: u32) -> Result<Vec<(u32, u32)>, Errno> {
        answer(self, client_rows::attached_to(self, segment))
    }

    /// The clients of one domain, without what is costly to find out.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn local_clients(&self, domain: u32) -> Result<Vec<LocalClient>, Errno> {
        answer(self, client_rows::local_clients(self, domain))
    }

    /// The process that a number names, if it is a client that has not ended. Uses no heap.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn process_of(&self, number: WidePid) -> Result<Option<Process>, Errno> {
        answer(self, client_rows::process_of(self, number))
    }

    /// All objects of a kind, with what their tables say. Looked at without a lock: an object that
    /// changes at this moment may show a mixture.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn entries(&self, kind: Kind) -> Result<Vec<ObjectDetails>, Errno> {
        answer(self, object_rows::entries(self, kind))
    }

    /// What has been done with each object. The difference of two readings is what was done between
    /// them.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn object_activities(&self) -> Result<Vec<ObjectActivity>, Errno> {
        answer(self, activity::object_activities(self))
    }

    /// How often threads have waited, and what the present waiters wait for.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn thread_activities(&self) -> Result<Vec<ThreadActivity>, Errno> {
        answer(self, activity::thread_activities(self))
    }

    /// How much of the pool is used.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn usage(&self) -> Result<Usage, Errno> {
        answer(self, object_rows::usage(self))
    }

    /// The locks that are held at this moment.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn locks(&self) -> Result<Vec<LockRow>, Errno> {
        answer(self, object_rows::locks(self))
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn objects(&self, kind: Kind) -> Result<Vec<ObjectRow>, Errno> {
        answer(self, object_rows::objects(self, kind))
    }

    /// Checks the whole pool. Meant for a quiet pool; on a busy one a step that is under way may
    /// show as a finding.
    ///
    /// # Errors
    /// EIO when the pool cannot be read at all.
    pub fn check(&self) -> Result<Vec<Finding>, Errno> {
        answer(self, check::check(self))
    }

    /// Counts what is in use.
    ///
    /// # Errors
    /// EIO when the pool cannot be read at all.
    pub fn space(&self) -> Result<PoolSpace, Errno> {
        answer(self, space::count(self))
    }
}
