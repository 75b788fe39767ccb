//! Chunks in reserve for the messages that lie in the slots of a ring.
//!
//! In the list a message needs a chunk, and the thread that closes a ring must not fail because the
//! heap is full: it may be about to receive, or to reap another client. So a message goes into a
//! slot itself only while its queue has a chunk in reserve for each slot. They are part of the
//! queue, and hang together by their links; where they begin, the cell of the list's tail says,
//! which means nothing else as long as the list is empty.
//!
//! A sender provides them, under the lock. The change that closes the ring uses some and frees the
//! others: so in mode *list* there are none, and who looked before the ring was closed fails at its
//! slot.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, RingSlot, Txn, crash_point};
use vshmem_wire::{
    Cell, Layout, MovedMessage, MsgHeader, Place, RING_SLOTS, RawCell, RingReserve, field,
};

use crate::memory::heap;
use crate::msg::queue::{Queue, at};
use crate::pool::chunk::{Chunk, IN_OBJECT};

/// What is left of a queue's reserve in a change that closes its ring.
pub(crate) struct Reserve(Option<RingReserve>);

impl Reserve {
    /// Of a ring in whose slots no message lies.
    pub const NONE: Self = Self(None);

    /// Reads what is in reserve, in the change that closes the ring.
    pub fn of(txn: &mut Txn<'_>, queue: &Queue) -> Result<Self, Fault> {
        // In a list the cell is the tail; but then there is no reserve any more.
        Ok(Self(RingReserve::unpack(txn.get(at!(queue, tail_or_reserve))?)))
    }

    fn take(&mut self, txn: &mut Txn<'_>, layout: &Layout) -> Result<Option<Chunk>, Fault> {
        let Some(RingReserve { unit, count }) = self.0 else { return Ok(None) };
        let chunk = Chunk(unit);
        let next = txn.get(chunk.next(layout)?)?.checked_sub(1);
        self.0 = next.filter(|_| count > 1).map(|unit| RingReserve { unit, count: count - 1 });
        Ok(Some(chunk))
    }

    /// Puts the message in the slot at `ring_slot` into a chunk, which becomes part of the list.
    ///
    /// A lock may be taken over while its holder is stopped, here as anywhere, and the chunk may be
    /// any client's when it goes on. So message and payload are put there by one compare-and-swap:
    /// from what was there while the slot still held the message, so that the chunk was still in
    /// reserve. That never comes back, see `tag_chunk` and [`MovedMessage`]. Others who do the
    /// same for this slot write the same.
    pub fn take_for<const N: usize>(
        &mut self,
        txn: &mut Txn<'_>,
        layout: &Layout,
        ring_slot: RingSlot<N>,
    ) -> Result<Chunk, Fault> {
        let map = txn.lock_context().map;
        let missing =
            Fault::corrupt(ring_slot.at, "a message for which there is no chunk in reserve");
        // What is invalid under a lock that was lost is not reported: the change begins again.
        let moves = Fault::corrupt(ring_slot.at, "a message that moves while its ring is closed");
        let chunk = self.take(txn, layout)?.ok_or(missing)?;
        let (mtype, size) = ring_slot.inline().unwrap_or_default();
        let moved =
            MovedMessage { mtype: mtype as u32, size: size as u32, position: ring_slot.position() };
        let payload = u64::from_le_bytes(ring_slot.inline_payload(map)?);
        let new = Cell { word: moved.pack(), tag: payload.to_le() };
        // The tag and the payload behind it, as one.
        let at = Place::<RawCell>::at(field!(chunk.place(layout)?, MsgHeader, tag).offset());
        let old = map.load_cell(at)?;
        if map.load(ring_slot.at.word(), Ordering::Acquire)? != ring_slot.word {
            return Err(moves);
        }
        crash_point("msg-slot-moves", "seen");
        if old != new && !map.replace_pair(at, old, new)? && map.load_cell(at)? != new {
            return Err(moves);
        }
        crash_point("msg-slot-moves", "moved");
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
