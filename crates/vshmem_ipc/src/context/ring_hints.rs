//! Where this process was in the rings of queues.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Queues that do not share a hint.
const QUEUES: usize = 64;

/// The slots at which this process expects the ends of a ring. Hints: always checked. What other
/// threads note at the same time may be lost.
#[derive(Debug)]
pub(crate) struct RingHints {
    heads: [AtomicU8; QUEUES],
    tails: [AtomicU8; QUEUES],
}

impl RingHints {
    pub fn new() -> Self {
        let none = || std::array::from_fn(|_| AtomicU8::new(0));
        Self { heads: none(), tails: none() }
    }

    /// The slot of the oldest message.
    #[inline]
    pub fn head(&self, queue: u32) -> usize {
        self.heads[queue as usize % QUEUES].load(Relaxed).into()
    }

    #[inline]
    pub fn note_head(&self, queue: u32, slot: usize) {
        self.heads[queue as usize % QUEUES].store(slot as u8, Relaxed);
    }

    /// The slot of the next message to be sent.
    #[inline]
    pub fn tail(&self, queue: u32) -> usize {
        self.tails[queue as usize % QUEUES].load(Relaxed).into()
    }

    #[inline]
    pub fn note_tail(&self, queue: u32, slot: usize) {
        self.tails[queue as usize % QUEUES].store(slot as u8, Relaxed);
    }
}
