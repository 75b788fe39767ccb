//! The sizes of objects that this process has reported to its program.
//!
//! A program sizes its buffer for GETALL by what IPC_STAT said, and touches as many bytes of a
//! segment as it has asked for. A peer that changes those numbers later must not make it write past
//! its buffer, or map a wrong number of bytes. So a reported size stays valid for as long as the id
//! does, or the call fails.

use rustix::io::Errno;
use vshmem_mem::{Map, Mapping, Ordering};
use vshmem_sync::Fault;
use vshmem_wire::{Layout, WORD_BYTES};

use crate::error::Failure;
use crate::pool::id::{Kind, ObjectSlot};

/// Marks a word that says something.
const REPORTED: u64 = 1 << 63;

/// A word per segment and per semaphore set, in memory of this process alone; touched as needed.
#[derive(Debug)]
pub(crate) struct ReportedSizes {
    /// `None` when there was no memory: then nothing can be relied on.
    words: Option<Map>,
    segments: u64,
}

impl ReportedSizes {
    /// Nothing has been reported yet.
    pub fn new(layout: &Layout) -> Self {
        let bytes = (layout.shm.count + layout.sem.count) * WORD_BYTES;
        let words = usize::try_from(bytes).ok().and_then(|bytes| Mapping::anonymous(bytes).ok());
        Self { words: words.map(Map::of), segments: layout.shm.count }
    }

    fn at(&self, kind: Kind, index: u32) -> u64 {
        let before = if kind == Kind::Semaphore { self.segments } else { 0 };
        (before + u64::from(index)) * WORD_BYTES
    }

    /// The size of an object that a get call has found or made.
    pub(crate) fn record_size(
        &self,
        kind: Kind,
        object_slot: ObjectSlot,
        size: u32,
    ) -> Result<(), Failure> {
        let words = self.words.as_ref().ok_or(Errno::NOMEM)?;
        let word = REPORTED | u64::from(object_slot.sequence & 0xffff) << 32 | u64::from(size);
        Ok(words
            .store(self.at(kind, object_slot.index), word, Ordering::Relaxed)
            .map_err(|_| Errno::INVAL)?)
    }

    /// The size of an object in `slot` as any other call sees it.
    ///
    /// # Errors
    /// Corrupt when it is not what this process has reported before.
    pub(crate) fn check_size(
        &self,
        kind: Kind,
        object_slot: ObjectSlot,
        size: u32,
        slot: impl Into<u64>,
    ) -> Result<(), Failure> {
        let words = self.words.as_ref().ok_or(Errno::NOMEM)?;
        let at = self.at(kind, object_slot.index);
        let word = words.load(at, Ordering::Relaxed).map_err(|_| Errno::INVAL)?;
        if word & REPORTED == 0 || (word >> 32) as u32 & 0xffff != object_slot.sequence & 0xffff {
            return self.record_size(kind, object_slot, size);
        }
        if word as u32 == size {
            Ok(())
        } else {
            Err(Fault::corrupt(slot, "an object whose size has changed").into())
        }
    }
}
