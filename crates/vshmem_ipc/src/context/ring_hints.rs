//! What this process knows of queues: where it was in their rings, and which are System V's.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// Queues that do not share a hint.
const QUEUES: usize = 64;
/// The end of a ring at which this process has never been; as a guess, the first slot.
const UNKNOWN: u8 = 0xf8;
/// No id is negative.
const NO_ID: u32 = u32::MAX;

/// The slots at which this process expects the ends of a ring. Hints: always checked. What other
/// threads note at the same time may be lost.
#[derive(Debug)]
pub(crate) struct RingHints {
    heads: [AtomicU8; QUEUES],
    tails: [AtomicU8; QUEUES],
    /// Ids of queues that are System V's: so they are until they are removed.
    system_v: [AtomicU32; QUEUES],
}

impl RingHints {
    /// Nothing is known of any queue yet.
    pub fn new() -> Self {
        let none = || std::array::from_fn(|_| AtomicU8::new(UNKNOWN));
        let system_v = std::array::from_fn(|_| AtomicU32::new(NO_ID));
        Self { heads: none(), tails: none(), system_v }
    }

    /// Whether the queue of this id is known to be System V's. An id comes back when the slot has
    /// been used 65,536 times, and so may this answer, until it is found to be a POSIX queue's.
    #[inline]
    pub fn is_system_v(&self, queue: u32, id: i32) -> bool {
        self.system_v[queue as usize % QUEUES].load(Relaxed) == id as u32
    }

    /// Notes that the queue of this id is System V's.
    pub fn note_system_v(&self, queue: u32, id: i32) {
        self.system_v[queue as usize % QUEUES].store(id as u32, Relaxed);
    }

    /// The queue in this slot may be of either kind.
    pub fn forget_system_v(&self, queue: u32) {
        self.system_v[queue as usize % QUEUES].store(NO_ID, Relaxed);
    }

    /// The slot of the oldest message.
    #[inline]
    pub fn head(&self, queue: u32) -> usize {
        self.heads[queue as usize % QUEUES].load(Relaxed).into()
    }

    /// Notes the slot behind the message that this process has taken.
    #[inline]
    pub fn note_head(&self, queue: u32, slot: usize) {
        self.heads[queue as usize % QUEUES].store(slot as u8, Relaxed);
    }

    /// As [`Self::head`], if this process has received from the queue.
    #[inline]
    pub fn known_head(&self, queue: u32) -> Option<usize> {
        known(&self.heads[queue as usize % QUEUES])
    }

    /// The slot of the next message to be sent.
    #[inline]
    pub fn tail(&self, queue: u32) -> usize {
        self.tails[queue as usize % QUEUES].load(Relaxed).into()
    }

    /// As [`Self::tail`], if this process has sent to the queue.
    #[inline]
    pub fn known_tail(&self, queue: u32) -> Option<usize> {
        known(&self.tails[queue as usize % QUEUES])
    }

    /// Notes the slot behind the message that this process has sent.
    #[inline]
    pub fn note_tail(&self, queue: u32, slot: usize) {
        self.tails[queue as usize % QUEUES].store(slot as u8, Relaxed);
    }
}

#[inline]
fn known(hint: &AtomicU8) -> Option<usize> {
    let slot = hint.load(Relaxed);
    (slot != UNKNOWN).then_some(slot.into())
}
