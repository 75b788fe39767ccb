//! What one process needs to work in a pool: the map, its own slots and client id, and what it
//! remembers between calls.
//!
//! Nothing in the layers above this one keeps state of its own; all of them are functions over a
//! [`Context`].

pub(crate) mod chunk_cache;
pub(crate) mod reclaim_position;
pub(crate) mod reported_sizes;
pub(crate) mod reserve_counter;
pub(crate) mod ring_hints;
pub(crate) mod undo_hints;
pub(crate) mod wait_file;
pub(crate) mod waker_cpu_cache;

use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;
use vshmem_mem::tuning::{RETRIES, RETRY_INTERVAL};
use vshmem_mem::{AtomicU32, AtomicU64, Map, Ordering, sleep_shortly};
use vshmem_sync::{
    Doorbell, Fault, LockContext, SendBackoff, SlotCache, SlotGuard, SlotOwner, Spin, WaitWords,
    field, load_value,
};
use vshmem_wire::{Area, ClientId, ClientSlot, DomainSlot, DomainState, ProcessRef, ThreadSlot};

use crate::context::chunk_cache::ChunkCache;
use crate::context::reclaim_position::ReclaimPosition;
use crate::context::reported_sizes::ReportedSizes;
use crate::context::reserve_counter::ReserveCounter;
use crate::context::ring_hints::RingHints;
use crate::context::undo_hints::UndoHints;
use crate::context::wait_file::{DomainUsers, WaitFile};
use crate::context::waker_cpu_cache::WakerCpuCache;
use crate::error::Failure;
use crate::pool::chunk::Chunk;
use crate::pool::clients::slot_of;
use crate::pool::domains;
use crate::pool::limits::limit_name;
use crate::pool::open::Pool;

/// Which threads a wake-up by this domain's wait words reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeScope {
    /// Every domain of this kernel: the words lie in the pool.
    Kernel,
    /// This domain alone: the words lie in a file of its own.
    Domain,
}

/// Steps of upper layers that lower ones begin: rare, and out of line. One table, given to the
/// context when it joins.
#[derive(Debug)]
pub(crate) struct Upcalls {
    /// Finishes what a thread of this process had begun from a slot, in a call that it has left by
    /// longjmp. Whether the slot can be used again.
    pub recover_thread: fn(&Context, &LockContext<'_>, u32) -> bool,
    /// Frees chunks that message queues keep for their next messages; whether there were any.
    pub free_spare_chunks: fn(&Context, &LockContext<'_>) -> Result<bool, Failure>,
    /// Takes a chunk from the dead client that owns it. If the chunk holds a message of a ring, it
    /// becomes part of the queue; otherwise it is freed.
    pub reap_chunk: fn(&Context, &LockContext<'_>, Chunk, u64) -> Result<(), Fault>,
}

/// This process as a client of a pool.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) pool: Arc<Pool>,
    pub(crate) domain: AtomicU32,
    pub(crate) epoch: AtomicU32,
    /// The domain's part of the client id while joining.
    pub(crate) digest: AtomicU64,
    /// Word of the client id.
    pub(crate) client: AtomicU64,
    pub(crate) pid: AtomicU32,
    pub(crate) slot_cache: SlotCache,
    pub(crate) chunk_cache: ChunkCache,
    pub(crate) words: WaitWords,
    pub(crate) domain_users: Option<DomainUsers>,
    pub(crate) spin: Spin,
    /// How long this process looks for room in a full ring.
    pub(crate) send_backoff: SendBackoff,
    /// When the next queue gets chunks in reserve.
    pub(crate) reserve: ReserveCounter,
    /// Where a receiver keeps a long text until the message is its own.
    pub(crate) payload_buffer: Mutex<Vec<u8>>,
    pub(crate) waker_cpu_cache: WakerCpuCache,
    pub(crate) undo_hints: UndoHints,
    pub(crate) ring_hints: RingHints,
    pub(crate) reported_sizes: ReportedSizes,
    pub(crate) reclaim_position: ReclaimPosition,
    pub(crate) wake_scope: WakeScope,
    pub(crate) doorbell: OnceLock<Arc<dyn Doorbell>>,
    watchdog: OnceLock<fn()>,
    pub(crate) upcalls: &'static Upcalls,
}

/// Domain of a process that does not know its own yet.
const UNKNOWN_DOMAIN: u32 = 127;

/// One of the ways in which a [`SlotCache`] gives a slot.
type TakeSlot<'a> =
    fn(&'a SlotCache, &'a Map, Area, SlotOwner) -> Result<Option<SlotGuard<'a>>, Fault>;

/// Takes a thread slot when there was none just now. The reserved ones are used by calls that do
/// not sleep, so one is free soon; all stay taken only while as many processes are stopped.
pub(crate) fn await_slot<T, E>(
    mut take: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for _ in 0..RETRIES {
        sleep_shortly(RETRY_INTERVAL);
        let taken = take()?;
        if taken.is_some() {
            return Ok(taken);
        }
    }
    Ok(None)
}

/// `VSHMEM_SPIN=0` forbids waiting threads to look before they sleep.
fn may_not_spin() -> bool {
    std::env::var_os("VSHMEM_SPIN").is_some_and(|word| word == "0")
}

impl Context {
    /// A process that is about to join, and is no client yet.
    pub(crate) fn new(
        pool: Arc<Pool>,
        digest: u64,
        pid: u32,
        words: Option<WaitFile>,
        wake_scope: WakeScope,
        upcalls: &'static Upcalls,
    ) -> Self {
        let threads = pool.layout().threads;
        let may_not_spin = may_not_spin();
        let (words, domain_users) = match words {
            Some(file) => (WaitWords::new(file.words, 0, 4), file.domain_users),
            None => {
                let base = field!(threads.offset, ThreadSlot, doorbell);
                (WaitWords::new(Arc::clone(pool.map()), base, threads.stride), None)
            }
        };
        Self {
            domain: AtomicU32::new(UNKNOWN_DOMAIN),
            epoch: AtomicU32::new(0),
            client: AtomicU64::new(ClientId::joining(digest, pid).word()),
            digest: AtomicU64::new(digest),
            pid: AtomicU32::new(pid),
            slot_cache: SlotCache::new(),
            chunk_cache: ChunkCache::new(),
            words,
            domain_users,
            spin: Spin::new(may_not_spin),
            send_backoff: SendBackoff::new(may_not_spin),
            reserve: ReserveCounter::default(),
            payload_buffer: Mutex::new(vec![0; vshmem_wire::RING_PAYLOAD_BYTES as usize]),
            waker_cpu_cache: WakerCpuCache::default(),
            undo_hints: UndoHints::new(),
            ring_hints: RingHints::new(),
            reported_sizes: ReportedSizes::new(pool.layout()),
            reclaim_position: ReclaimPosition::default(),
            wake_scope,
            doorbell: OnceLock::new(),
            watchdog: OnceLock::new(),
            upcalls,
            pool,
        }
    }

    /// What this process is called while it is no client.
    pub(crate) fn as_joining(&self) -> ClientId {
        let digest = self.digest.load(Ordering::Relaxed);
        ClientId::joining(digest, self.pid.load(Ordering::Relaxed))
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
        self.domain.load(Ordering::Relaxed)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether this domain is still an active member: it may have been evicted while it was
    /// paused.
    pub(crate) fn is_in_active_domain(&self) -> Result<bool, Fault> {
        let slot = domains::slot_at(self.pool.layout(), self.domain())?;
        let map = self.pool.map();
        let state = load_value(map, field!(slot, DomainSlot, state))?;
        let epoch = load_value(map, field!(slot, DomainSlot, epoch))?;
        Ok(state == DomainState::Alive as u32 && epoch == self.epoch())
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
        // Only this process writes the word, so it is a valid client id.
        let word = self.client.load(Ordering::Relaxed);
        ClientId::of(word).unwrap_or_else(|| self.as_joining())
    }

    /// Whether `pid` is the process that has joined: a vfork child runs in its parent's memory.
    #[must_use]
    pub(crate) fn is_process(&self, pid: rustix::process::Pid) -> bool {
        self.pid.load(Ordering::Relaxed) == pid.as_raw_nonzero().get() as u32
    }

    /// This process as others see it.
    #[inline]
    pub(crate) fn process_ref(&self) -> ProcessRef {
        ProcessRef { domain: self.domain(), pid: self.pid.load(Ordering::Relaxed) }
    }

    /// The pid that this domain's programs see for `process_ref`: 0 for one of another domain,
    /// as Linux does across PID namespaces.
    #[must_use]
    pub(crate) fn pid_here(&self, process_ref: u32) -> u32 {
        let process_ref = ProcessRef::unpack(process_ref);
        if process_ref.domain == self.domain() { process_ref.pid } else { 0 }
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
            (self.upcalls.recover_thread)(self, &lock_context, slot)
        });
    }

    #[inline]
    pub(crate) fn lock_context_of<'a>(&'a self, slot_guard: &SlotGuard<'_>) -> LockContext<'a> {
        let layout = self.pool.layout();
        LockContext {
            map: self.pool.map(),
            threads: layout.threads,
            words_end: layout.data.offset,
            slot: slot_guard.slot,
            slot_cache: &self.slot_cache,
        }
    }

    /// Makes every waiting thread call `look` about once a second, outside any lock; it must not
    /// use the heap. Only the first one counts.
    pub(crate) fn set_watchdog(&self, look: fn()) {
        let _ = self.watchdog.set(look);
    }

    pub(crate) fn watchdog(&self) {
        if let Some(look) = self.watchdog.get() {
            look();
        }
    }
}
