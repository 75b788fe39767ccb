//! What one process needs to work in a pool: the map, its own slots and name, and what it remembers
//! between calls.
//!
//! Nothing in the rooms above this one keeps state of its own; all of them are functions over a
//! [`Context`].

pub(crate) mod chunk_cache;
pub(crate) mod reclaim_position;
pub(crate) mod reported_sizes;
pub(crate) mod reserve_counter;
pub(crate) mod undo_hints;
pub(crate) mod wait_file;
pub(crate) mod waker_cpu_cache;

use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Ordering};
use vshmem_sync::{Claimant, Desk, Doorbell, Fault, RoomWait, Seat, Seats, Spin, WaitWords, field};
use vshmem_wire::{ClientName, ClientSlot, Party, ThreadSlot};

use crate::context::chunk_cache::Larder;
use crate::context::reclaim_position::Rounds;
use crate::context::reported_sizes::Told;
use crate::context::reserve_counter::ReserveCounter;
use crate::context::undo_hints::UndoHints;
use crate::context::wait_file::{Neighbourhood, WaitFile};
use crate::context::waker_cpu_cache::Answerers;
use crate::error::Failure;
use crate::pool::chunk::Chunk;
use crate::pool::clients::slot_of;
use crate::pool::open::Pool;

/// Whom a ring of this domain's wait words reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every domain of this kernel: the words lie in the pool.
    Kernel,
    /// This domain alone: the words lie in a file of its own.
    Domain,
}

/// Steps of upper rooms that lower ones begin: rare, and out of line. One table, given to the
/// context when it joins.
#[derive(Debug)]
pub(crate) struct Upcalls {
    /// Finishes what a thread of this process had begun from a slot, in a call that it has left by
    /// longjmp. Whether the slot can be used again.
    pub recover_thread: fn(&Context, &Desk<'_>, u32) -> bool,
    /// Frees chunks that message queues keep for their next messages; whether there were any.
    pub free_spare_chunks: fn(&Context, &Desk<'_>) -> Result<bool, Failure>,
    /// Settles a chunk that carries the name of a dead client, as its owner word says, and may hold
    /// a message of a ring.
    pub reap_chunk: fn(&Context, &Desk<'_>, Chunk, u64) -> Result<(), Fault>,
}

/// This process as a client of a pool.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) pool: Arc<Pool>,
    pub(crate) domain: AtomicU32,
    pub(crate) epoch: AtomicU32,
    /// The domain's part of the name while joining.
    pub(crate) digest: AtomicU64,
    /// Word of the name.
    pub(crate) client: AtomicU64,
    pub(crate) pid: AtomicU32,
    pub(crate) seats: Seats,
    pub(crate) larder: Larder,
    pub(crate) words: WaitWords,
    pub(crate) neighbourhood: Option<Neighbourhood>,
    pub(crate) spin: Spin,
    /// How long this process looks for room in a full ring.
    pub(crate) room: RoomWait,
    /// When the next queue gets chunks in reserve.
    pub(crate) reserve: ReserveCounter,
    /// Where a receiver keeps a long text until the message is its own.
    pub(crate) text: Mutex<Vec<u8>>,
    pub(crate) answerers: Answerers,
    pub(crate) undo_hints: UndoHints,
    pub(crate) told: Told,
    pub(crate) rounds: Rounds,
    pub(crate) reach: Reach,
    pub(crate) doorbell: OnceLock<Arc<dyn Doorbell>>,
    vigil: OnceLock<fn()>,
    pub(crate) upcalls: &'static Upcalls,
}

/// Domain of a process that does not know its own yet.
const UNKNOWN_DOMAIN: u32 = 127;

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
        reach: Reach,
        upcalls: &'static Upcalls,
    ) -> Self {
        let threads = pool.layout().threads;
        let (words, neighbourhood) = match words {
            Some(file) => (WaitWords::new(file.words, 0, 4), file.neighbourhood),
            None => {
                let base = field!(threads.offset, ThreadSlot, doorbell);
                (WaitWords::new(Arc::clone(pool.map()), base, threads.stride), None)
            }
        };
        Self {
            domain: AtomicU32::new(UNKNOWN_DOMAIN),
            epoch: AtomicU32::new(0),
            client: AtomicU64::new(ClientName::joining(digest, pid).word()),
            digest: AtomicU64::new(digest),
            pid: AtomicU32::new(pid),
            seats: Seats::new(),
            larder: Larder::new(),
            words,
            neighbourhood,
            spin: Spin::new(may_not_spin()),
            room: RoomWait::new(may_not_spin()),
            reserve: ReserveCounter::default(),
            text: Mutex::new(vec![0; vshmem_wire::RING_TEXT_BYTES as usize]),
            answerers: Answerers::default(),
            undo_hints: UndoHints::new(),
            told: Told::new(pool.layout()),
            rounds: Rounds::default(),
            reach,
            doorbell: OnceLock::new(),
            vigil: OnceLock::new(),
            upcalls,
            pool,
        }
    }

    /// What this process is called while it is no client.
    pub(crate) fn as_stranger(&self) -> ClientName {
        let digest = self.digest.load(Ordering::Relaxed);
        ClientName::joining(digest, self.pid.load(Ordering::Relaxed))
    }

    /// Whether this process is still the member that it was: it may have been evicted, with its
    /// domain, while it was paused.
    #[inline]
    pub(crate) fn stands(&self) -> bool {
        self.seats.stand(self.pool.map()).is_ok()
    }

    /// Whether other threads of this process are in the middle of calls: asleep, as a rule.
    #[must_use]
    pub(crate) fn others_busy(&self) -> bool {
        self.seats.others_busy()
    }

    /// The pool.
    #[must_use]
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Index of this domain.
    #[must_use]
    pub(crate) fn domain(&self) -> u32 {
        // Written before this process is a member, and in a child before it is one.
        self.domain.load(Ordering::Relaxed)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Client slot of this process.
    #[must_use]
    pub(crate) fn client(&self) -> u32 {
        self.me().slot().unwrap_or(u32::MAX)
    }

    /// This process's name in the pool, which no other process gets.
    #[must_use]
    pub(crate) fn name(&self) -> ClientName {
        self.me()
    }

    /// This process's name in the pool.
    #[inline]
    pub(crate) fn me(&self) -> ClientName {
        // Nobody but this process writes it, so it is a name.
        let word = self.client.load(Ordering::Relaxed);
        ClientName::of(word).unwrap_or_else(|| self.as_stranger())
    }

    /// Whether `pid` is the process that has joined: a vfork child runs in its parent's memory.
    #[must_use]
    pub(crate) fn is_process(&self, pid: rustix::process::Pid) -> bool {
        self.pid.load(Ordering::Relaxed) == pid.as_raw_nonzero().get() as u32
    }

    /// This process as others see it.
    #[inline]
    pub(crate) fn party(&self) -> Party {
        Party { domain: self.domain(), pid: self.pid.load(Ordering::Relaxed) }
    }

    /// The pid that this domain's programs are told for `party`: 0 for one of another domain, as
    /// Linux does across PID namespaces.
    #[must_use]
    pub(crate) fn pid_here(&self, party: u32) -> u32 {
        let party = Party::unpack(party);
        if party.domain == self.domain() { party.pid } else { 0 }
    }

    /// A thread slot for one call.
    #[inline]
    pub(crate) fn seat(&self) -> Result<Seat<'_>, Failure> {
        if !self.stands() {
            return Err(Fault::Evicted.into());
        }
        let (map, layout) = (self.pool.map(), self.pool.layout());
        let client = self.me();
        let list = slot_of(layout, client).map(|slot| field!(slot, ClientSlot, threads));
        let claimant = Claimant { client, list: list.ok() };
        let take = || self.seats.take(map, layout.threads, claimant).map_err(Failure::from);
        match take()? {
            Some(seat) => {
                if seat.is_surplus() {
                    self.recover_abandoned(&seat);
                }
                Ok(seat)
            }
            None if self.pool.free_dead_threads()? => take()?.ok_or(Errno::NOMEM.into()),
            None => Err(Errno::NOMEM.into()),
        }
    }

    /// Out of line: it takes stack that no other call needs.
    #[cold]
    #[inline(never)]
    fn recover_abandoned(&self, seat: &Seat<'_>) {
        let desk = self.desk_of(seat);
        self.seats.recover_abandoned(seat, |slot| (self.upcalls.recover_thread)(self, &desk, slot));
    }

    #[inline]
    pub(crate) fn desk_of<'a>(&'a self, seat: &Seat<'_>) -> Desk<'a> {
        let layout = self.pool.layout();
        Desk {
            map: self.pool.map(),
            threads: layout.threads,
            words_end: layout.data.offset,
            slot: seat.slot,
            seats: &self.seats,
        }
    }

    /// Has `look` called about once a second by every thread that sleeps, outside any lock; it must
    /// not use the heap. Only the first one counts.
    pub(crate) fn keep_vigil(&self, look: fn()) {
        let _ = self.vigil.set(look);
    }

    pub(crate) fn vigil(&self) {
        if let Some(look) = self.vigil.get() {
            look();
        }
    }
}
