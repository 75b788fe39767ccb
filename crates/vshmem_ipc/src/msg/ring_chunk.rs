//! The chunks of messages in a ring.
//!
//! # Who owns a chunk of the ring
//! Sending does not write the chunk's owner cell. While the message is in the ring, and after it
//! has been taken, the cell names the sender, which no longer uses the chunk. The slot still notes
//! the chunk of the message that was taken last, and the next sender into the slot claims that
//! chunk. The header in the chunk says which message it carried last, and what its owner cell held
//! then. So of several threads that claim it only one succeeds, and none if it has been claimed or
//! freed since. The note is only a hint: any thread may free that chunk at any time.

use std::mem::offset_of;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, RingSlot, crash_point, load_cell, structure};
use vshmem_wire::{
    Cell, ClientId, Layout, MSG_HEADER_BYTES, MsgHeader, Place, RING_SLOTS, RawCell, RingPosition,
    UNIT_BYTES, field,
};

use crate::context::Context;
use crate::memory::{chunks, heap};
use crate::msg::message::Header;
use crate::msg::queue::Queue;
use crate::pool::chunk::{Chunk, IN_OBJECT};

/// As a message in a ring of `N` slots says it.
pub(crate) fn ring_position<const N: usize>(index: u32, position: u64) -> u64 {
    RingPosition { index, is_long: N != RING_SLOTS, position }.pack()
}

/// Where a message's chunk says where in a ring it was put.
pub(crate) fn ring_position_in(layout: &Layout, chunk: Chunk) -> Result<Place<u64>, Fault> {
    Ok(field!(chunk.place(layout)?, MsgHeader, ring_position))
}

/// A chunk that this client owns and counts on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingChunk {
    pub chunk: Chunk,
    /// Its owner cell.
    owner_at: Place<RawCell>,
    /// What that says as long as the chunk is ours.
    owner: Cell,
    /// The header, with which the chunk begins.
    header: Place<MsgHeader>,
}

impl RingChunk {
    /// Takes a chunk that has just been allocated into the service of a queue.
    pub fn take_ring_chunk(
        map: &Map,
        layout: &Layout,
        index: u32,
        chunk: Chunk,
    ) -> Result<Self, Fault> {
        let (owner_at, header) = (chunk.owner(layout)?, chunk.place(layout)?);
        let at = field!(header, MsgHeader, ring_position);
        let position = map.load(at, Ordering::SeqCst)?;
        if RingPosition::index_in(position) != Some(index) {
            // Reaping changes the owner cell and then reads the position; here that is changed
            // and then `is_ours` reads the owner cell. All of it is sequentially consistent, so one
            // of them sees the other. Refused only when a peer writes into the chunk.
            map.replace(at, position, ring_position::<RING_SLOTS>(index, 0))?;
        }
        Ok(Self { chunk, owner_at, owner: load_cell(map, owner_at)?, header })
    }

    /// Whether a payload of so many bytes fits into it.
    #[inline(always)]
    pub fn fits(&self, map: &Map, layout: &Layout, bytes: u64) -> Result<bool, Fault> {
        let needed = MSG_HEADER_BYTES + bytes;
        // The smallest chunk is one unit.
        Ok(needed <= UNIT_BYTES || needed <= crate::pool::chunk::bytes_of(map, layout, self.chunk)?)
    }

    /// Whether it still is this client's. Another client may have taken it, if it took this one for
    /// dead.
    #[inline(always)]
    pub fn is_ours(&self, map: &Map) -> Result<bool, Fault> {
        Ok(map.load(self.owner_at.tag(), Ordering::SeqCst)? == self.owner.tag)
    }

    /// Writes the message, to be put where `ring_slot` is.
    #[inline(always)]
    pub fn write<const N: usize>(
        &self,
        map: &Map,
        index: u32,
        ring_slot: RingSlot<N>,
        mtype: i64,
        payload: &[u8],
    ) -> Result<(), Fault> {
        let header = structure!(map, self.header, MsgHeader)?;
        let position = ring_position::<N>(index, ring_slot.position());
        header.store(offset_of!(MsgHeader, ring_position), position, Ordering::Relaxed);
        header.store(offset_of!(MsgHeader, owner), self.owner.word, Ordering::Relaxed);
        // Pairs with the acquire in `SpareChunk::of`: a thread that reads this tag reads that
        // place or a later one.
        header.store(offset_of!(MsgHeader, tag), self.owner.tag, Ordering::Release);
        Header::write_tagged(map, self.header, mtype, payload)
    }

    /// Gives it back to the heap.
    pub fn free(self, map: &Map) -> Result<(), Fault> {
        map.replace_cell(self.owner_at, self.owner, 0)?;
        Ok(())
    }
}

/// The chunk of the message that was taken last from a slot, if no thread has claimed it since.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpareChunk {
    pub chunk: Chunk,
    pub owner_at: Place<RawCell>,
    pub owner: Cell,
    header: Place<MsgHeader>,
}

impl SpareChunk {
    /// What the slot at `ring_slot` notes.
    #[inline(always)]
    pub fn of<const N: usize>(
        map: &Map,
        layout: &Layout,
        index: u32,
        ring_slot: RingSlot<N>,
    ) -> Result<Option<Self>, Fault> {
        let Some(chunk) = ring_slot.chunk().map(Chunk) else { return Ok(None) };
        // A note that names no chunk was written by a hostile member.
        let (Ok(owner_at), Ok(header)) = (chunk.owner(layout), chunk.place(layout)) else {
            return Ok(None);
        };
        let fields = structure!(map, header, MsgHeader)?;
        let tag = fields.load(offset_of!(MsgHeader, tag), Ordering::Acquire);
        let word = fields.load(offset_of!(MsgHeader, owner), Ordering::Acquire);
        let position = fields.load(offset_of!(MsgHeader, ring_position), Ordering::Acquire);
        // If owner and tag are those of a later claim, then so is the place, as it is written
        // before them.
        let owner = Cell { word, tag };
        let former = ring_position::<N>(index, ring_slot.former_position());
        let spare = position == former && word > IN_OBJECT;
        Ok(spare.then_some(Self { chunk, owner_at, owner, header }))
    }

    /// Makes it this client's own.
    #[inline(always)]
    fn claim(self, map: &Map, client: ClientId) -> Result<Option<RingChunk>, Fault> {
        let mine = client.word();
        let claimed = map.replace_cell(self.owner_at, self.owner, mine)?;
        let owner = self.owner.successor(mine);
        let Self { chunk, owner_at, header, .. } = self;
        Ok(claimed.then_some(RingChunk { chunk, owner_at, owner, header }))
    }

    /// Gives it back to the heap; false: another thread has claimed or freed it.
    pub fn free(self, map: &Map) -> Result<bool, Fault> {
        Ok(map.replace_cell(self.owner_at, self.owner, 0)?)
    }
}

/// Claims the chunk that the slot at `ring_slot` notes.
#[inline(always)]
pub(crate) fn claim_spare<const N: usize>(
    map: &Map,
    layout: &Layout,
    index: u32,
    ring_slot: RingSlot<N>,
    client: ClientId,
) -> Result<Option<RingChunk>, Fault> {
    match SpareChunk::of(map, layout, index, ring_slot)? {
        Some(spare) => spare.claim(map, client),
        None => Ok(None),
    }
}

/// Takes the chunk that a slot notes in hand, if no thread has claimed it: the slot is about to
/// forget it.
#[inline(always)]
pub(crate) fn hold_spare<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    held: &mut Option<RingChunk>,
) -> Result<(), Fault> {
    let (map, layout, me) = (context.pool().map(), context.pool().layout(), context.client_id());
    if let Some(spare) = claim_spare(map, layout, queue.index, ring_slot, me)? {
        crash_point("msg-fast-send", "claimed");
        // One that is in hand is large enough.
        match held {
            Some(_) => spare.free(map)?,
            None => *held = Some(spare),
        }
    }
    Ok(())
}

/// Takes the chunk of a message that was taken: an idle queue does not keep large ones.
#[cold]
pub(crate) fn take_along<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
) -> Result<(), Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Some(held) =
        claim_spare(map, layout, queue.index, ring_slot.taken(), context.client_id())?
    {
        crash_point("msg-fast-receive", "claimed");
        keep(context, held);
    }
    Ok(())
}

/// A chunk from the heap, for a ring that has none to spare; `None` when there is none.
#[cold]
pub(crate) fn take_ring_chunk(
    context: &Context,
    queue: &Queue,
    payload: usize,
) -> Result<Option<RingChunk>, Fault> {
    let Ok(slot_guard) = context.slot_guard() else { return Ok(None) };
    let Ok(chunk) = chunks::take(
        context,
        &context.lock_context_of(&slot_guard),
        MSG_HEADER_BYTES + payload as u64,
    ) else {
        return Ok(None);
    };
    RingChunk::take_ring_chunk(context.pool().map(), context.pool().layout(), queue.index, chunk)
        .map(Some)
}

/// Keeps a chunk that was not used after all, if it still is this client's.
#[cold]
pub(crate) fn keep(context: &Context, held: RingChunk) {
    if !held.is_ours(context.pool().map()).unwrap_or(false) {
        return;
    }
    // Without a slot guard it stays this client's until the end.
    if let Ok(slot_guard) = context.slot_guard() {
        let lock_context = context.lock_context_of(&slot_guard);
        let _ = heap::release(
            context.pool(),
            &lock_context,
            &context.chunk_cache,
            context.client_id(),
            held.chunk,
        );
    }
}

/// The chunk that a slot notes is what the next message is sent in.
#[inline(always)]
pub(crate) fn will_write_chunk<const N: usize>(map: &Map, layout: &Layout, ring_slot: RingSlot<N>) {
    if let Some(Ok(at)) = ring_slot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
}

/// The chunk in a slot is that of the next message, if there is one.
#[inline]
pub(crate) fn will_read_chunk<const N: usize>(map: &Map, layout: &Layout, ring_slot: RingSlot<N>) {
    if let Some(Ok(at)) = ring_slot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_read(at);
    }
}
