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
}

impl ChunkCache {
    pub fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU32::new(0));
        Self { kept: zeros(), hint: zeros() }
    }

    pub fn forget(&self) {
        for kept in &self.kept {
            kept.store(0, Ordering::Relaxed);
        }
    }
}
