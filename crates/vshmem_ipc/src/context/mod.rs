//! What one process needs to work in a pool: the map, its own slots and client id, and what it
//! remembers between calls.
//!
//! Nothing in the layers above this one keeps state of its own; all of them are functions over a
//! [`Context`].

pub(crate) mod chunk_cache;
pub(crate) mod entry;
mod identity;
pub(crate) mod reclaim_position;
pub(crate) mod reported_sizes;
pub(crate) mod reserve_counter;
pub(crate) mod ring_hints;
pub(crate) mod undo_hints;
pub(crate) mod wait_file;
pub(crate) mod wait_policy;
pub(crate) mod waker_cpu_cache;
pub(crate) mod waking;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use vshmem_mem::tuning::{SLOT_INTERVAL, SLOT_TRIES};
use vshmem_mem::{AtomicU32, Map, Ordering, sleep_shortly};
use vshmem_sync::{Fault, LockContext, SendBackoff, SlotCache, SlotGuard, SlotOwner, Spin};
use vshmem_wire::{Area, ClientId, ClientSlot, ProcessRef, ThreadSlot, field};

use crate::context::chunk_cache::ChunkCache;
use crate::context::entry::Entry;
use crate::context::identity::Identity;
use crate::context::reclaim_position::ReclaimPosition;
use crate::context::reported_sizes::ReportedSizes;
use crate::context::reserve_counter::ReserveCounter;
use crate::context::ring_hints::RingHints;
use crate::context::undo_hints::UndoHints;
use crate::context::wait_file::WaitFile;
use crate::context::wait_policy::WaitPolicy;
use crate::context::waking::{WakeScope, Waking};
use crate::error::Failure;
use crate::pool::chunk::Chunk;
use crate::pool::clients::slot_of;
use crate::pool::limits::limit_name;
use crate::pool::open::Pool;
use crate::pool::wide_pid::WidePid;

/// The arrows that point upwards: steps of upper layers that lower ones begin.
///
/// They are rare and out of line. `client` names what carries them out, and gives it to the
/// context when it joins.
///
/// | step | from | to |
/// |---|---|---|
/// | `recover_thread` | `context`: a slot that a call has left by longjmp | `recovery::threads` |
/// | `free_spare_chunks` | `memory::chunks`: the heap is full | `msg::stock` |
/// | `reap_chunk` | `memory::heap`: a chunk's owner is dead | `msg::reap` |
pub(crate) trait UpperLayers: Debug + Sync {
    /// Finishes what a thread of this process had begun from a slot, in a call that it has left by
    /// longjmp. Whether the slot can be used again.
    fn recover_thread(&self, context: &Context, lock_context: &LockContext<'_>, slot: u32) -> bool;

    /// Frees chunks that message queues keep for their next messages; whether there were any.
    fn free_spare_chunks(
        &self,
        context: &Context,
        lock_context: &LockContext<'_>,
    ) -> Result<bool, Failure>;

    /// Takes a chunk from the dead client that owns it. If the chunk holds a message of a ring, it
    /// becomes part of the queue; otherwise it is freed.
    fn reap_chunk(
        &self,
        context: &Context,
        lock_context: &LockContext<'_>,
        chunk: Chunk,
        dead: u64,
    ) -> Result<(), Fault>;
}

/// This process as a client of a pool.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) pool: Arc<Pool>,
    /// Who this process is there.
    pub(crate) identity: Identity,
    /// How its threads are woken, and wake others.
    pub(crate) waking: Waking,
    /// What carries out the steps of upper layers.
    pub(crate) upper_layers: &'static dyn UpperLayers,
    /// As what it joins.
    pub(crate) entry: Entry,
    pub(crate) slot_cache: SlotCache,
    pub(crate) chunk_cache: ChunkCache,
    pub(crate) spin: Spin,
    /// How long this process looks for room in a full ring.
    pub(crate) send_backoff: SendBackoff,
    /// When the next queue gets chunks in reserve.
    pub(crate) reserve: ReserveCounter,
    /// Where a receiver keeps a long text until the message is its own.
    pub(crate) payload_buffer: Mutex<Vec<u8>>,
    pub(crate) undo_hints: UndoHints,
    pub(crate) ring_hints: RingHints,
    pub(crate) reported_sizes: ReportedSizes,
    pub(crate) reclaim_position: ReclaimPosition,
    /// 1: programs of this process see the processes of all domains by [`WidePid`].
    pub(crate) shows_wide_pids: AtomicU32,
}

/// One of the ways in which a [`SlotCache`] gives a slot.
type TakeSlot<'a> =
    fn(&'a SlotCache, &'a Map, Area<ThreadSlot>, SlotOwner) -> Result<Option<SlotGuard<'a>>, Fault>;

/// Takes a thread slot when there was none just now. The reserved ones are used by calls that do
/// not sleep, so one is free soon; all stay taken only while as many processes are stopped.
pub(crate) fn await_slot<T, E>(
    mut take: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for _ in 0..SLOT_TRIES {
        sleep_shortly(SLOT_INTERVAL);
        let taken = take()?;
        if taken.is_some() {
            return Ok(taken);
        }
    }
    Ok(None)
}

impl Context {
    /// A process that is about to join, and is no client yet.
    pub(crate) fn new(
        pool: Arc<Pool>,
        digest: u64,
        pid: u32,
        words: Option<WaitFile>,
        (wake_scope, wait_policy): (WakeScope, WaitPolicy),
        upper_layers: &'static dyn UpperLayers,
        entry: Entry,
    ) -> Self {
        let may_not_spin = wait_policy == WaitPolicy::SleepAtOnce;
        Self {
            identity: Identity::joining(digest, pid),
            waking: Waking::new(&pool, words, wake_scope),
            upper_layers,
            entry,
            slot_cache: SlotCache::new(),
            chunk_cache: ChunkCache::new(),
            spin: Spin::new(may_not_spin),
            send_backoff: SendBackoff::new(may_not_spin),
            reserve: ReserveCounter::default(),
            payload_buffer: Mutex::new(vec![0; vshmem_wire::RING_PAYLOAD_BYTES as usize]),
            undo_hints: UndoHints::new(),
            ring_hints: RingHints::new(),
            reported_sizes: ReportedSizes::new(pool.layout()),
            reclaim_position: ReclaimPosition::default(),
            shows_wide_pids: AtomicU32::new(0),
            pool,
        }
    }

    /// What this process is called while it is no client.
    pub(crate) fn as_joining(&self) -> ClientId {
        self.identity.as_joining()
    }

    /// Whether this process is still the client that it was: it may have been evicted, with its
    /// domain, while it was paused.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.slot_cache.check_current(self.pool.map()).is_ok()
    }

    /// Whether other threads of this process are in the middle of calls: asleep, as a rule.
    #[must_use]
    pub(crate) fn others_busy(&self) -> bool {
        self.slot_cache.others_busy()
    }

    /// The pool.
    #[must_use]
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Index of this domain.
    #[must_use]
    pub(crate) fn domain(&self) -> u32 {
        // Written before this process is a client, and in a child before it is one.
        self.identity.domain.load(Ordering::Relaxed)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.identity.epoch.load(Ordering::Relaxed)
    }

    /// As [`Identity::is_in_active_domain`].
    pub(crate) fn is_in_active_domain(&self) -> Result<bool, Fault> {
        self.identity.is_in_active_domain(&self.pool)
    }

    /// Client slot of this process.
    #[must_use]
    pub(crate) fn client_slot(&self) -> u32 {
        self.client_id().slot().unwrap_or(u32::MAX)
    }

    /// The client id of this process, which no other process gets.
    #[inline]
    #[must_use]
    pub(crate) fn client_id(&self) -> ClientId {
        self.identity.client_id()
    }

    /// Whether `pid` is the process that has joined: a vfork child runs in its parent's memory.
    #[must_use]
    pub(crate) fn is_process(&self, pid: rustix::process::Pid) -> bool {
        self.identity.pid.load(Ordering::Relaxed) == pid.as_raw_nonzero().get() as u32
    }

    /// This process as others see it.
    #[inline]
    pub(crate) fn process_ref(&self) -> ProcessRef {
        self.identity.process_ref()
    }

    /// The pid that this domain's programs see for `process_ref`: 0 for one of another domain,
    /// as Linux does across PID namespaces; where it shows wide pids, that.
    #[must_use]
    pub(crate) fn pid_here(&self, process_ref: u32) -> u32 {
        let ProcessRef { domain, pid } = ProcessRef::unpack(process_ref);
        if self.shows_wide_pids.load(Ordering::Relaxed) != 0 && pid != 0 {
            return WidePid { domain, pid }.number();
        }
        if domain == self.domain() { pid } else { 0 }
    }

    /// A thread slot for one call. Where few are left it is one that the call cannot sleep in
    /// ([`SlotGuard::may_sleep`]).
    #[inline]
    pub(crate) fn slot_guard(&self) -> Result<SlotGuard<'_>, Failure> {
        match self.slot_guard_by(SlotCache::take) {
            Err(Failure::Errno(Errno::NOMEM)) => self.slot_guard_later(),
            taken => taken,
        }
    }

    #[cold]
    #[inline(never)]
    fn slot_guard_later(&self) -> Result<SlotGuard<'_>, Failure> {
        let later = await_slot(|| match self.slot_guard_by(SlotCache::take) {
            Err(Failure::Errno(Errno::NOMEM)) => Ok(None),
            taken => taken.map(Some),
        })?;
        later.ok_or(Errno::NOMEM.into())
    }

    /// A thread slot to sleep in.
    pub(crate) fn slot_guard_to_sleep(&self) -> Result<SlotGuard<'_>, Failure> {
        self.slot_guard_by(SlotCache::take_to_sleep)
    }

    #[inline]
    fn slot_guard_by<'a>(&'a self, take: TakeSlot<'a>) -> Result<SlotGuard<'a>, Failure> {
        if !self.is_current() {
            return Err(Fault::Evicted.into());
        }
        let (map, layout) = (self.pool.map(), self.pool.layout());
        let client = self.client_id();
        let list = slot_of(layout, client).map(|slot| field!(slot, ClientSlot, threads));
        let slot_owner = SlotOwner { client, list: list.ok() };
        let take =
            || take(&self.slot_cache, map, layout.threads, slot_owner).map_err(Failure::from);
        match take()? {
            Some(slot_guard) => {
                if slot_guard.is_surplus() {
                    self.recover_abandoned(&slot_guard);
                }
                Ok(slot_guard)
            }
            None => {
                let freed = self.pool.free_dead_threads()?;
                let taken = if freed { take()? } else { None };
                let full = || self.pool.full(limit_name!(threads), Errno::NOMEM).into();
                taken.ok_or_else(full)
            }
        }
    }

    /// Out of line: it takes stack that no other call needs.
    #[cold]
    #[inline(never)]
    fn recover_abandoned(&self, slot_guard: &SlotGuard<'_>) {
        let lock_context = self.lock_context_of(slot_guard);
        self.slot_cache.recover_abandoned(slot_guard, |slot| {
            self.upper_layers.recover_thread(self, &lock_context, slot)
        });
    }

    #[inline]
    pub(crate) fn lock_context_of<'a>(&'a self, slot_guard: &SlotGuard<'_>) -> LockContext<'a> {
        let layout = self.pool.layout();
        LockContext {
            map: self.pool.map(),
            threads: layout.threads,
            words_end: layout.data.offset(),
            slot: slot_guard.slot,
            slot_cache: &self.slot_cache,
        }
    }

    /// Makes every waiting thread call `look` about once a second, outside any lock; it must not
    /// use the heap. Only the first one counts.
    pub(crate) fn set_watchdog(&self, look: fn()) {
        let _ = self.waking.watchdog.set(look);
    }

    pub(crate) fn watchdog(&self) {
        if let Some(look) = self.waking.watchdog.get() {
            look();
        }
    }
}
