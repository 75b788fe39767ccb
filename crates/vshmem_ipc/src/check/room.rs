//! How much room a pool has left.

use vshmem_sync::{Fault, field};
use vshmem_wire::{CHUNK_CLASSES, PageMeta, SlabMeta, ThreadSlot};

use super::Look;
use crate::heap::{self, Chunk, IN_OBJECT, SLAB_UNITS};
use crate::wait::thread_at;
use crate::{Errno, Pool};

/// What is in use and what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Data pages in segments.
    pub pages_used: u64,
    /// Data pages that are free.
    pub pages_free: u64,
    /// Pages of the largest free extent.
    pub largest_free: u64,
    /// Free extents.
    pub free_extents: u32,
    /// Slabs of the heap that serve a size or a run.
    pub slabs_used: u32,
    /// Slabs of the heap that are free.
    pub slabs_free: u32,
    /// Chunks in objects.
    pub chunks_in_objects: u32,
    /// Chunks that clients hold.
    pub chunks_held: u32,
    /// Thread slots in use.
    pub threads: u32,
}

impl Pool {
    /// Counts what is in use.
    ///
    /// # Errors
    /// EIO when the pool cannot be read at all.
    pub fn room(&self) -> Result<Room, Errno> {
        let mut look = Look {
            pool: self,
            layout: self.layout(),
            pending: std::collections::HashMap::new(),
            findings: Vec::new(),
        };
        look.room().map_err(|_| Errno::IO)
    }
}

impl Look<'_> {
    fn room(&mut self) -> Result<Room, Fault> {
        let mut room = Room::default();
        for (length, state) in self.extents()?.into_values() {
            let length = u64::from(length);
            if state == PageMeta::USED {
                room.pages_used += length;
            } else {
                room.pages_free += length;
                room.free_extents += 1;
                room.largest_free = room.largest_free.max(length);
            }
        }
        for slab in 0..self.layout.slab_meta.count as u32 {
            let meta = heap::slab_meta(self.layout, slab)?;
            let class = self.get(field!(meta, SlabMeta, class))?;
            if class == 0 {
                room.slabs_free += 1;
                continue;
            }
            room.slabs_used += 1;
            let step = match class {
                SlabMeta::RUN => SLAB_UNITS,
                _ => match CHUNK_CLASSES.get(class as usize - 1) {
                    Some(units) => *units,
                    None => continue,
                },
            };
            for nth in 0..SLAB_UNITS / step {
                let owner = Chunk(slab * SLAB_UNITS + nth * step).owner(self.layout)?;
                match self.get(owner)? {
                    0 => {}
                    IN_OBJECT => room.chunks_in_objects += 1,
                    _ => room.chunks_held += 1,
                }
            }
        }
        for thread in 0..self.layout.threads.count as u32 {
            let at = thread_at(self.layout, thread)?;
            room.threads += u32::from(self.get(field!(at, ThreadSlot, owner))? != 0);
        }
        Ok(room)
    }
}
