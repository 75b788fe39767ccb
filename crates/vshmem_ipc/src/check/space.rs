//! How much room a pool has left.

use vshmem_sync::Fault;
use vshmem_wire::{
    AttachSlot, CHUNK_CLASSES, ClientSlot, ClientState, ExtentState, MsgSlot, SlabMeta, ThreadSlot,
    UndoSlot, field,
};

use crate::check::checker::Checker;
use crate::error::Failure;
use crate::memory::dirty;
use crate::pool::chunk::{Chunk, IN_OBJECT, SLAB_UNITS};
use crate::pool::open::Pool;

/// What is in use and what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSpace {
    /// Data pages in segments.
    pub pages_used: u64,
    /// Data pages that are free.
    pub pages_free: u64,
    /// Free pages that read as zeros already: a segment gets them without work.
    pub pages_clean: u64,
    /// Pages of the largest free extent.
    pub largest_free: u64,
    /// Free extents.
    pub free_extents: u32,
    /// Slabs of the heap that serve a size or a run.
    pub slabs_used: u32,
    /// Slabs of the heap that are free.
    pub slabs_free: u32,
    /// Chunks in objects, but for the long rings of queues.
    pub chunks_in_objects: u32,
    /// Chunks that are long rings of queues: they stay when the queue is removed.
    pub long_rings: u32,
    /// Chunks that clients hold.
    pub chunks_held: u32,
    /// Thread slots in use.
    pub threads: u32,
    /// Client slots in use.
    pub clients: u32,
    /// Attach records in use.
    pub attaches: u32,
    /// Undo records in use.
    pub undos: u32,
}

/// Counts what is in use.
pub(crate) fn count(pool: &Pool) -> Result<PoolSpace, Failure> {
    let mut look = Checker {
        pool,
        layout: pool.layout(),
        pending: std::collections::HashMap::new(),
        findings: Vec::new(),
    };
    look.space().map_err(Failure::from)
}

impl Checker<'_> {
    fn space(&mut self) -> Result<PoolSpace, Fault> {
        let mut room = PoolSpace::default();
        for found in self.extents()?.into_values() {
            let pages = u64::from(found.pages);
            if found.is(ExtentState::Used) {
                room.pages_used += pages;
                continue;
            }
            let map = self.pool.map();
            let dirty = dirty::count(map, self.layout, found.first, found.pages)?;
            room.pages_free += pages;
            room.pages_clean += pages.saturating_sub(dirty);
            room.free_extents += 1;
            room.largest_free = room.largest_free.max(pages);
        }
        for slab in 0..self.layout.slab_meta.count as u32 {
            let meta = self.layout.slab_meta.row(slab)?;
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
                match self.word(owner)? {
                    0 => {}
                    IN_OBJECT => room.chunks_in_objects += 1,
                    owner => room.chunks_held += u32::from(!self.pool.is_of_dead(owner)?),
                }
            }
        }
        room.long_rings = self.count_long_rings()?;
        room.chunks_in_objects = room.chunks_in_objects.saturating_sub(room.long_rings);
        for thread in 0..self.layout.threads.count as u32 {
            let at = self.layout.threads.row(thread)?;
            let owner = self.word(field!(at, ThreadSlot, owner))?;
            room.threads += u32::from(owner != 0 && !self.pool.is_of_dead(owner)?);
        }
        for client in 0..self.layout.clients.count as u32 {
            let state = self.state(field!(self.layout.clients.row(client)?, ClientSlot, state))?;
            room.clients += u32::from(state != Some(ClientState::Free));
        }
        for record in 0..self.layout.attaches.count as u32 {
            let at = self.layout.attaches.row(record)?;
            room.attaches += u32::from(self.get(field!(at, AttachSlot, segment))? != 0);
        }
        for record in 0..self.layout.undos.count as u32 {
            let at = self.layout.undos.row(record)?;
            room.undos += u32::from(self.get(field!(at, UndoSlot, client))? != 0);
        }
        Ok(room)
    }

    fn count_long_rings(&self) -> Result<u32, Fault> {
        let mut rings = 0;
        for queue in 0..self.layout.msg.count as u32 {
            let slot = self.layout.msg.row(queue)?;
            rings += u32::from(self.get(field!(slot, MsgSlot, long_ring))? != 0);
        }
        Ok(rings)
    }
}
