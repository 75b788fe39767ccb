//! Chunks of the heap that this process has given back and still owns, one of each size.

use vshmem_mem::{AtomicU32, Ordering};
use vshmem_wire::CHUNK_CLASSES;

/// What this process remembers about the heap.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    /// A chunk of each class that was given back and is still owned, unit plus one.
    pub kept: [AtomicU32; CHUNK_CLASSES.len()],
    /// Where the last chunk of each class was found, as a unit.
    pub hint: [AtomicU32; CHUNK_CLASSES.len()],
    /// How many more queues are passed over before memory for a long ring is looked for again.
    ring_pause: AtomicU32,
}

/// Queues too full for their ring that are passed over once there was no memory for a long ring.
const RING_PAUSE: u32 = 256;

impl ChunkCache {
    /// Keeps no chunk yet.
    pub fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU32::new(0));
        Self { kept: zeros(), hint: zeros(), ring_pause: AtomicU32::new(0) }
    }

    /// Whether to look for memory for a long ring. What other threads count at the same time may be
    /// lost.
    pub fn may_look_for_ring(&self) -> bool {
        let pause = self.ring_pause.load(Ordering::Relaxed);
        self.ring_pause.store(pause.saturating_sub(1), Ordering::Relaxed);
        pause == 0
    }

    /// There was none.
    pub fn note_no_ring(&self) {
        self.ring_pause.store(RING_PAUSE, Ordering::Relaxed);
    }

    /// Forgets all chunks: in a forked child they are the parent's.
    pub fn forget(&self) {
        for kept in &self.kept {
            kept.store(0, Ordering::Relaxed);
        }
    }
}
