//! Chunks in reserve for the messages that lie in the slots of a ring.
//!
//! In the list a message needs a chunk, and whoever closes a ring must not fail because the heap is full: it may be about to receive,
//! or to bury somebody. So a message goes into a slot itself only while its queue has a chunk in reserve for each slot. They
//! are part of the queue, and hang together by their links; where they begin, the cell of the list's tail says, which means
//! nothing else as long as the list is empty.
//!
//! A sender provides them, under the lock. The change that closes the ring uses some and frees the others: so in mode *list*
//! there are none, and who looked before the ring was closed fails at its slot.

use super::Queue;
use super::at;
use super::awaited::says_list;
use super::ring::enter_ring;
use crate::heap::{self, Chunk, IN_OBJECT};
use crate::{Member, Verdict};
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Desk, Fault, Spot, Txn, field, load_cell, load_value};
use vshmem_wire::{
    Cell, Layout, MSG_HEADER_BYTES, MovedMessage, MsgHeader, MsgSlot, RING_INLINE_BYTES,
    RING_SLOTS, RingReserve,
};

/// Makes what a chunk says different from all that it has ever said, before it comes into a reserve.
fn tag_chunk(map: &Map, layout: &Layout, chunk: Chunk) -> Result<(), Fault> {
    let owner = load_cell(map, chunk.owner(layout)?)?;
    map.store(field!(chunk.offset(layout)?, MsgHeader, tag), owner.tag, Ordering::Release)?;
    Ok(())
}

/// What is left of a queue's reserve in a change that closes its ring.
pub(super) struct Reserve(Option<RingReserve>);

impl Reserve {
    pub fn of(txn: &mut Txn<'_>, queue: &Queue) -> Result<Self, Fault> {
        // In a list the cell is the tail; but then there is no reserve any more.
        Ok(Self(RingReserve::unpack(txn.get(at!(queue, tail))?)))
    }

    fn take(&mut self, txn: &mut Txn<'_>, layout: &Layout) -> Result<Option<Chunk>, Fault> {
        let Some(RingReserve { unit, count }) = self.0 else { return Ok(None) };
        let chunk = Chunk(unit);
        let next = txn.get(chunk.next(layout)?)?.checked_sub(1);
        self.0 = next.filter(|_| count > 1).map(|unit| RingReserve { unit, count: count - 1 });
        Ok(Some(chunk))
    }

    /// Puts the message in the slot at `spot` into a chunk, which becomes part of the list.
    ///
    /// A lock may be taken over while its holder is stopped, here as anywhere, and the chunk may be anybody's when it goes on. So
    /// message and text are put there by one compare-and-swap: from what was there while the slot still held the message, so
    /// that the chunk was still in reserve. That never comes back, see [`tag_chunk`] and [`MovedMessage`]. Others who do the same
    /// for this slot write the same.
    pub fn take_for(
        &mut self,
        txn: &mut Txn<'_>,
        layout: &Layout,
        spot: Spot,
    ) -> Result<Chunk, Fault> {
        let map = txn.desk().map;
        let missing = Fault::corrupt(spot.at, "a message for which there is no chunk in reserve");
        let chunk = self.take(txn, layout)?.ok_or(missing)?;
        let (kind, size) = spot.inline().unwrap_or_default();
        let moved =
            MovedMessage { kind: kind as u32, size: size as u32, position: spot.position() };
        let text = u64::from_le_bytes(spot.inline_text(map)?);
        let new = Cell { word: moved.pack(), tag: text.to_le() };
        let at = field!(chunk.offset(layout)?, MsgHeader, tag);
        let old = map.load_cell(at)?;
        // Believed only by who still has the lock: any other starts again.
        let changed = Fault::corrupt(spot.at, "a message that changes in a closed ring");
        if map.load(spot.at, Ordering::Acquire)? != spot.word {
            return Err(changed);
        }
        if old != new && !map.replace_pair(at, old, new)? && map.load_cell(at)? != new {
            return Err(changed);
        }
        Ok(chunk)
    }

    /// Stages that what is left is free.
    pub fn free(mut self, txn: &mut Txn<'_>, layout: &Layout) -> Result<(), Fault> {
        for _ in 0..RING_SLOTS {
            let Some(chunk) = self.take(txn, layout)? else { break };
            heap::pass(txn, layout, chunk, IN_OBJECT, 0)?;
        }
        Ok(())
    }
}

impl Member {
    /// Whether this process is to provide a reserve before it sends its next message.
    pub(super) fn is_reserve_due(&self) -> bool {
        self.reserve.is_due()
    }

    /// Provides a reserve for a queue that uses its ring, if the heap has room for one.
    #[cold]
    pub(super) fn stock_reserve(&self, queue: &Queue) -> Result<(), Fault> {
        let Ok(seat) = self.seat() else { return Ok(()) };
        let desk = self.desk_of(&seat);
        let pool = self.pool();
        let bytes = MSG_HEADER_BYTES + RING_INLINE_BYTES as u64;
        let mut chunks = Vec::with_capacity(RING_SLOTS);
        while chunks.len() < RING_SLOTS
            && let Some(chunk) = heap::allocate(self, &desk, bytes)?
        {
            tag_chunk(pool.map(), pool.layout(), chunk)?;
            chunks.push(chunk);
        }
        let mut is_stocked = false;
        if chunks.len() == RING_SLOTS {
            let step = || -> Verdict<bool> {
                self.change(&desk, queue.lock(), "msg-reserve", |txn| {
                    self.stage_reserve(txn, queue, &chunks).map(Ok)
                })
            };
            is_stocked = matches!(step()?, Ok(true));
        }
        if !is_stocked {
            for chunk in chunks {
                heap::release(pool, &desk, &self.larder, self.me(), chunk)?;
            }
        }
        Ok(())
    }

    /// Stages that these chunks are the queue's reserve; false when it has one, or no use for one.
    fn stage_reserve(
        &self,
        txn: &mut Txn<'_>,
        queue: &Queue,
        chunks: &[Chunk],
    ) -> Result<bool, Fault> {
        let layout = self.pool().layout();
        let mode = txn.get_word(at!(queue, mode))?;
        if !queue.alive(txn)? || says_list(mode) || txn.get(at!(queue, tail))? != 0 {
            return Ok(false);
        }
        let mut next = 0;
        for chunk in chunks {
            heap::pass(txn, layout, *chunk, self.me().word(), IN_OBJECT)?;
            txn.update(chunk.next(layout)?, next)?;
            next = chunk.0 + 1;
        }
        let count = chunks.len() as u32;
        let value = next.checked_sub(1).map_or(0, |unit| RingReserve { unit, count }.pack());
        txn.set(at!(queue, tail), value)?;
        Ok(true)
    }

    /// Frees the reserve of a queue where the heap is full; says whether there was one.
    pub(super) fn give_up_reserve(&self, desk: &Desk<'_>, queue: &Queue) -> Result<bool, Fault> {
        let value = load_value(self.pool().map(), at!(queue, tail))?;
        if self.is_in_list(queue)? || RingReserve::unpack(value).is_none() {
            return Ok(false);
        }
        let layout = self.pool().layout();
        // With the ring closed it is used or free.
        let done = self.change_list(desk, queue, "msg-reserve-free", |txn| {
            if queue.alive(txn)? {
                enter_ring(txn, layout, queue)?;
            }
            Ok(Ok(()))
        })?;
        Ok(done.is_ok())
    }
}
