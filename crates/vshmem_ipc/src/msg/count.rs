//! How many messages a queue holds under its lock, and how many were ever sent to it.
//!
//! Each message that is sent through a ring takes a position in it, and so the position of its tail
//! counts them, without a store of its own. What goes past the ring, or skips a position, is
//! counted beside it under the lock: in the upper half of the cell that holds the length of the
//! list.

use vshmem_mem::Map;
use vshmem_sync::{Fault, MessageRing, RingSlot, Txn, load_word};
use vshmem_wire::{LONG_RING_SLOTS, Layout, OUTGROWN_RARITY_LOG2, QueueCount, RING_SLOTS};

use crate::msg::mode::{is_large_in, long_ring};
use crate::msg::queue::{Queue, at};

/// Looks at both numbers, until nothing has come between.
pub(super) const MOST_LOOKS: u32 = 16;

/// The count of a queue, as a change would leave it.
pub(super) fn count_of(txn: &mut Txn<'_>, queue: &Queue) -> Result<QueueCount, Fault> {
    txn.get_word(at!(queue, count)).map(QueueCount::unpack)
}

/// Stages that the list has so many messages more, or fewer.
pub(crate) fn lengthen(txn: &mut Txn<'_>, queue: &Queue, by: i32) -> Result<(), Fault> {
    let before = count_of(txn, queue)?;
    let list = before.list.saturating_add_signed(by);
    txn.set_word(at!(queue, count), QueueCount { list, ..before }.pack())?;
    const MOST: u32 = LONG_RING_SLOTS as u32;
    if before.list <= MOST && list > MOST {
        txn.update(at!(queue, long_ring_rarity), OUTGROWN_RARITY_LOG2)?;
    }
    Ok(())
}

/// Stages that the short ring is to be used where there are messages whose bytes would have to be
/// counted in the long one, but perhaps not in the short one: none is sent through the long one.
pub(super) fn note_size(txn: &mut Txn<'_>, queue: &Queue, bytes: u64) -> Result<(), Fault> {
    let limit = txn.get(at!(queue, limit))?.into();
    if is_large_in::<LONG_RING_SLOTS>(limit, bytes) && txn.get(at!(queue, long_ring))? != 0 {
        txn.update(at!(queue, long_ring_rarity), OUTGROWN_RARITY_LOG2)?;
    }
    Ok(())
}

/// Stages that a message was sent past the ring.
pub(crate) fn sent_past_ring(txn: &mut Txn<'_>, queue: &Queue) -> Result<(), Fault> {
    let before = count_of(txn, queue)?;
    let past_ring = before.past_ring.wrapping_add(1);
    txn.set_word(at!(queue, count), QueueCount { past_ring, ..before }.pack())
}

/// Stages the word that opens a closed slot of the ring. No message was sent to the position if
/// that is skipped.
pub(crate) fn open_slot<const N: usize>(
    txn: &mut Txn<'_>,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    word: u64,
) -> Result<(), Fault> {
    if MessageRing::<N>::is_skip(ring_slot.word, word) {
        let before = count_of(txn, queue)?;
        let past_ring = before.past_ring.wrapping_sub(1);
        txn.set_word(at!(queue, count), QueueCount { past_ring, ..before }.pack())?;
    }
    let map = txn.lock_context().map;
    txn.replace(ring_slot.at, ring_slot.cell(map)?, word)
}

/// Stages that a new queue is empty, and that no message was sent yet: where its ring begins is
/// taken away.
pub(crate) fn begin_count(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    let mut words = [0; RING_SLOTS];
    for (nth, word) in words.iter_mut().enumerate() {
        *word = txn.get_word(queue.ring().element(nth as u64))?;
    }
    let position = MessageRing::of(queue.ring(), words).next_position() as u32;
    let sent = position.wrapping_add(sent_by_long_ring(txn.lock_context().map, layout, queue)?);
    let count = QueueCount { list: 0, past_ring: sent.wrapping_neg() };
    txn.set_word(at!(queue, count), count.pack())
}

/// Messages that were ever sent through the long ring, modulo 2^32.
fn sent_by_long_ring(map: &Map, layout: &Layout, queue: &Queue) -> Result<u32, Fault> {
    Ok(match long_ring(map, layout, queue)? {
        Some(base) => MessageRing::<LONG_RING_SLOTS>::read(map, base)?.next_position() as u32,
        None => 0,
    })
}

/// Messages sent since the queue was made, modulo 2^32.
pub(crate) fn sent(map: &Map, layout: &Layout, queue: &Queue) -> Result<u32, Fault> {
    let past_ring =
        || load_word(map, at!(queue, count)).map(|word| QueueCount::unpack(word).past_ring);
    let mut before = past_ring()?;
    let mut sent = 0;
    for _ in 0..MOST_LOOKS {
        let position = MessageRing::<RING_SLOTS>::read(map, queue.ring())?.next_position() as u32;
        let by_long_ring = sent_by_long_ring(map, layout, queue)?;
        let now = past_ring()?;
        sent = position.wrapping_add(by_long_ring).wrapping_add(now);
        // The same before and after: they belong together.
        if now == before {
            break;
        }
        before = now;
    }
    Ok(sent)
}
