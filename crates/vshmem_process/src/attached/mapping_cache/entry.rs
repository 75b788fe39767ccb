//! One place in the cache: whose it is, and what lies there.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use vshmem_mem::Protection;

use crate::attached::addresses::drop_mapping;
use crate::process;

/// Bytes of all entries that are not free.
pub(super) static TOTAL: AtomicUsize = AtomicUsize::new(0);

pub(super) const FREE: u32 = 0;
const CACHED: u32 = 1;
/// With the number of the thread that has claimed an entry: its claimer's, which a child keeps.
const CLAIMED: u32 = 2;
/// With that as well: the range may be the program's by now, so the claimer leaves it alone from
/// the next time on that it looks, which it does before each step. Nobody waits for it any more: it
/// may have left its call for good (siglongjmp out of a handler).
pub(super) const GIVEN_UP: u32 = 1;

/// The state of an entry that this thread has claimed.
pub(super) fn claimed() -> u32 {
    process::this_thread() as u32 | CLAIMED
}

#[derive(Debug)]
pub(super) struct Entry {
    pub state: AtomicU32,
    /// Of the pool.
    pub offset: AtomicU64,
    pub start: AtomicUsize,
    pub bytes: AtomicUsize,
    /// Whether no access is allowed.
    pub closed: AtomicBool,
    /// When it came, in arrivals.
    pub turn: AtomicU64,
}

impl Entry {
    /// An entry without a range.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            offset: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            turn: AtomicU64::new(0),
        }
    }

    /// Whether it holds a range that no thread uses, and as wanted.
    pub fn is(&self, wanted: impl Fn(&Self) -> bool) -> bool {
        self.state.load(Ordering::Acquire) == CACHED && wanted(self)
    }

    /// Makes the entry the caller's if it is as wanted.
    pub fn claim(&self, wanted: impl Fn(&Self) -> bool) -> bool {
        let mine = self.is(&wanted)
            && self
                .state
                .compare_exchange(CACHED, claimed(), Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Between the look and the claim it may have become another one.
        if mine && !wanted(self) {
            self.keep();
            return false;
        }
        mine
    }

    /// The state, while a thread has claimed the entry and its range is not given up.
    pub fn claim_in_force(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Acquire);
        (state & (CLAIMED | GIVEN_UP) == CLAIMED).then_some(state)
    }

    /// Says to the thread that has claimed the entry in `state` that the range is the program's.
    pub fn give_up(&self, state: u32) {
        let (from, to) = (state, state | GIVEN_UP);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The claimer leaves its mapping in the cache; or the entry free, and false, when the range
    /// was given up.
    pub fn keep(&self) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let kept = self.state.compare_exchange(claimed(), CACHED, order.0, order.1).is_ok();
        if !kept {
            self.vacate();
        }
        kept
    }

    /// Where its range begins in this process, and its bytes.
    pub fn range(&self) -> (usize, usize) {
        (self.start.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Whether it maps exactly these bytes of the pool.
    pub fn shows(&self, offset: u64, bytes: usize) -> bool {
        self.offset.load(Ordering::Relaxed) == offset && self.bytes.load(Ordering::Relaxed) == bytes
    }

    /// Whether these bytes of the pool are among those that it maps.
    pub fn covers(&self, offset: u64, bytes: u64) -> bool {
        let begin = self.offset.load(Ordering::Relaxed);
        let end = begin.saturating_add(self.bytes.load(Ordering::Relaxed) as u64);
        begin <= offset && offset.saturating_add(bytes) <= end
    }

    /// Allows loads and stores; whether it could, and the range was not given up.
    pub fn open(&self) -> bool {
        if self.claim_in_force().is_none() {
            return false;
        }
        let (start, bytes) = self.range();
        !self.closed.swap(false, Ordering::Relaxed)
            || NonNull::new(start as *mut u8).is_some_and(|start| {
                // SAFETY: the claimer owns the mapping.
                unsafe { vshmem_mem::protect(start, bytes, Some(Protection::READ_WRITE)) }.is_ok()
            })
    }

    /// The claimer frees the entry, whose mapping is its own from then on: unless the range was
    /// given up, which it says.
    pub fn vacate(&self) -> bool {
        TOTAL.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::AcqRel);
        self.forget_range();
        self.state.swap(FREE, Ordering::AcqRel) & GIVEN_UP == 0
    }

    /// No range touches it: the thread that claims the entry next is not taken for the owner of
    /// what it has shown before.
    pub fn forget_range(&self) {
        self.start.store(usize::MAX, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// The claimer unmaps what the entry shows.
    pub fn discard(&self) {
        let (start, bytes) = self.range();
        if self.claim_in_force().is_some() {
            drop_mapping(start, bytes);
        }
        self.vacate();
    }
}
