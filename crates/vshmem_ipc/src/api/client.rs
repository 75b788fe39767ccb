//! The public face of a client: joining, forking, leaving.

use std::sync::Arc;

use rustix::io::Errno;
use vshmem_mem::Ordering;
use vshmem_wire::ClientId;

use crate::api::errno::answer;
use crate::client::fork::{self, ChildSlot};
use crate::client::join::{self, JoinError};
use crate::client::lease::{self, Lease};
use crate::client::leave;
use crate::context::Context;
use crate::context::entry::Entry;
use crate::context::wait_file::WaitFile;
use crate::context::wait_policy::WaitPolicy;
use crate::context::waking::WakeScope;
use crate::listing::rows::ObjectRow;
use crate::pool::clients::{self, Process};
use crate::pool::domains::DomainIdentity;
use crate::pool::open::Pool;
use crate::registry::lookup;

/// This process as a client of a pool.
#[derive(Debug)]
pub struct Client {
    pub(crate) context: Context,
}

impl Client {
    /// Joins: finds or makes the domain's slot, and this process's.
    ///
    /// A process that has just been exec'ed finds the slot that it had before: its adjustments
    /// (SEM_UNDO) go on.
    ///
    /// # Errors
    /// Says which table is full, or that the pool is damaged.
    pub fn join(
        pool: Arc<Pool>,
        identity: &DomainIdentity,
        process: Process,
        words: Option<WaitFile>,
        wake_scope: WakeScope,
    ) -> Result<Self, JoinError> {
        let waits = (wake_scope, WaitPolicy::default());
        let over = (&(|_, _| false) as _, Entry::User);
        Self::join_over_dead(pool, identity, process, words, waits, over)
    }

    /// As [`Client::join`]. When the client table is full, first reaps those clients of this domain
    /// of which `gone` says, by pid and start time, that they have ended. `waits`: whom its
    /// wake-ups reach, and whether its threads spin before they sleep. `entry`: as what it joins.
    ///
    /// # Errors
    /// As [`Client::join`].
    pub fn join_over_dead(
        pool: Arc<Pool>,
        identity: &DomainIdentity,
        process: Process,
        words: Option<WaitFile>,
        waits: (WakeScope, WaitPolicy),
        (gone, entry): (&dyn Fn(u32, u64) -> bool, Entry),
    ) -> Result<Self, JoinError> {
        let context = join::join(pool, identity, process, words, waits, (gone, entry))?;
        Ok(Self { context })
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        self.context.pool()
    }

    /// Index of this domain.
    #[must_use]
    pub fn domain(&self) -> u32 {
        self.context.domain()
    }

    /// Client slot of this process.
    #[must_use]
    pub fn client_slot(&self) -> u32 {
        self.context.client_slot()
    }

    /// The client id of this process, which no other process gets.
    #[must_use]
    pub fn client_id(&self) -> ClientId {
        self.context.client_id()
    }

    /// Whether `pid` is the process that has joined: a vfork child runs in its parent's memory.
    #[must_use]
    pub fn is_process(&self, pid: rustix::process::Pid) -> bool {
        self.context.is_process(pid)
    }

    /// Whether this process has that number in its domain.
    #[must_use]
    pub fn is_process_number(&self, pid: u32) -> bool {
        self.context.process_ref().pid == pid
    }

    /// Whether other threads of this process are in the middle of calls: asleep, as a rule.
    #[must_use]
    pub fn others_busy(&self) -> bool {
        self.context.others_busy()
    }

    /// Makes every waiting thread call `look` about once a second, outside any lock; it must not
    /// use the heap. Only the first one counts.
    pub fn set_watchdog(&self, look: fn()) {
        self.context.set_watchdog(look)
    }

    /// Pids that calls return (IPC_STAT and its like) are [`WidePid`]s from now on: those of other
    /// domains too.
    ///
    /// [`WidePid`]: crate::WidePid
    pub fn show_wide_pids(&self) {
        self.context.shows_wide_pids.store(1, Ordering::Relaxed);
    }

    /// Whether this process is in the slot that its parent had kept for it, attaches and all. It is
    /// not when the parent was killed before it had named the child, and was reaped.
    #[must_use]
    pub fn is_in(&self, kept: ChildSlot) -> bool {
        self.context.client_id() == kept.0
    }

    /// The id of an object row.
    ///
    /// # Errors
    /// EINVAL when it has gone.
    pub fn id_of(&self, row: ObjectRow) -> Result<i32, Errno> {
        answer(self.pool(), lookup::id_at(&self.context, row.kind, row.index))
    }

    /// Keeps a client slot, with all attaches of this process, for a child.
    ///
    /// # Errors
    /// EAGAIN when a table is full; fork gives the same.
    pub fn reserve_child(&self) -> Result<ChildSlot, Errno> {
        answer(self.pool(), fork::reserve_child(&self.context))
    }

    /// Notes the pid of the child that a slot was kept for, so that its death is noticed even if it
    /// dies before it has taken the slot over.
    pub fn record_child_pid(&self, kept: ChildSlot, pid: u32) {
        fork::record_child_pid(&self.context, kept, pid)
    }

    /// Gives a kept slot back: the fork has failed.
    pub fn cancel_child(&self, kept: ChildSlot) {
        fork::cancel_child(&self.context, kept)
    }

    /// To be called in the child: takes the kept slot over. `elsewhere` is its domain if that may
    /// be another one than its parent's: it is the first process of a PID namespace, or its parent
    /// is outside.
    ///
    /// # Errors
    /// As [`Client::join`]; the child is then no member.
    pub fn become_child(
        &self,
        kept: Option<ChildSlot>,
        process: Process,
        elsewhere: Option<&DomainIdentity>,
    ) -> Result<(), JoinError> {
        fork::become_child(&self.context, kept, process, elsewhere)
    }

    /// To be called in a child that cannot become a member. Otherwise its calls would act as its
    /// parent.
    pub fn renounce(&self) {
        fork::renounce(&self.context)
    }

    /// Makes a running process no client any more: gives up what it holds, and its slot.
    ///
    /// Nothing happens when the domain has been evicted or reaped meanwhile: what lies in the slot
    /// is not this process's any more.
    ///
    /// # Errors
    /// EIO when the pool is corrupt; ENOMEM when there is no thread slot to work from.
    pub fn leave(self) -> Result<(), Errno> {
        self.part()
    }

    /// As [`Client::leave`], for a process that keeps the tables mapped for a moment, or a private
    /// copy of them: it makes no further call for the pool.
    ///
    /// # Errors
    /// As [`Client::leave`].
    pub fn part(&self) -> Result<(), Errno> {
        answer(self.pool(), leave::leave(&self.context))
    }

    /// Whether the process of a client id may still act: its domain is a member, or was evicted and
    /// is not known to be dead.
    #[must_use]
    pub fn may_act(&self, client: ClientId) -> bool {
        clients::may_act(self.pool(), client)
    }

    /// Whether this process has to start an agent for its domain: there is none, and no other
    /// process is about to start one. `exists` tells whether there is a process of a pid here.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn must_start_agent(&self, exists: fn(u32) -> bool) -> Result<bool, Errno> {
        answer(self.pool(), lease::must_start_agent(&self.context, exists))
    }

    /// To be called when this process cannot start an agent: if it has said that it will, takes
    /// that back, so that another process does.
    pub fn renounce_agent(&self) {
        lease::renounce_agent(&self.context)
    }

    /// Renews this domain's lease; for the agent, which has held it since it began. `Some`: another
    /// agent has written it meanwhile, of this pid where it is (0: unknown). If that is no process
    /// here, it is in a copy of this machine.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn renew_lease(&self, agent_pid: u32, held: &mut Lease) -> Result<Option<u32>, Errno> {
        answer(self.pool(), lease::renew_lease(&self.context, agent_pid, held))
    }

    /// Whether this domain is still an active member: it may have been evicted while it
    /// was paused.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn is_active_member(&self) -> Result<bool, Errno> {
        answer(self.pool(), self.context.is_in_active_domain())
    }

    /// Gives up what this process holds while it still runs, at exit: attaches and adjustments.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn release_at_exit(&self) -> Result<(), Errno> {
        answer(self.pool(), leave::release_at_exit(&self.context))
    }

    /// Applies this process's adjustments now.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn apply_adjustments(&self) -> Result<(), Errno> {
        answer(self.pool(), leave::apply_adjustments(&self.context))
    }
}
