//! How many messages a queue holds under its lock, and how many were ever sent to it.
//!
//! Each message that is sent through the ring takes a position, and so the position of the tail
//! counts them, without a store of its own. What goes past the ring, or skips a position, is
//! counted beside it under the lock: in the upper half of the cell that holds the length of the
//! list.

use vshmem_mem::Map;
use vshmem_sync::{Fault, MessageRing, RingSlot, Txn, load_word};
use vshmem_wire::{CELL_BYTES, RING_SLOTS, SENT_PAST_RING_AT};

use crate::msg::queue::{Queue, at};

/// Looks at both numbers, until nothing has come between.
const MOST_LOOKS: u32 = 16;

fn past_ring(word: u64) -> u32 {
    (word >> SENT_PAST_RING_AT) as u32
}

fn packed(past_ring: u32, count: u32) -> u64 {
    u64::from(past_ring) << SENT_PAST_RING_AT | u64::from(count)
}

/// Stages that the list has so many messages more, or fewer.
pub(crate) fn lengthen(txn: &mut Txn<'_>, queue: &Queue, by: i32) -> Result<(), Fault> {
    let word = txn.get_word(at!(queue, count))?;
    let count = (word as u32).saturating_add_signed(by);
    txn.set_word(at!(queue, count), packed(past_ring(word), count))
}

/// Stages that a message was sent past the ring.
pub(crate) fn sent_past_ring(txn: &mut Txn<'_>, queue: &Queue) -> Result<(), Fault> {
    let word = txn.get_word(at!(queue, count))?;
    txn.set_word(at!(queue, count), packed(past_ring(word).wrapping_add(1), word as u32))
}

/// Stages the word that opens a closed slot of the ring. No message was sent to the position if
/// that is skipped.
pub(crate) fn open_slot(
    txn: &mut Txn<'_>,
    queue: &Queue,
    ring_slot: RingSlot,
    word: u64,
) -> Result<(), Fault> {
    if MessageRing::is_skip(ring_slot.word, word) {
        let word = txn.get_word(at!(queue, count))?;
        txn.set_word(at!(queue, count), packed(past_ring(word).wrapping_sub(1), word as u32))?;
    }
    let map = txn.lock_context().map;
    txn.replace(ring_slot.at, ring_slot.cell(map)?, word)
}

/// Stages that a new queue is empty, and that no message was sent yet: where its ring begins is
/// taken away.
pub(crate) fn begin_count(txn: &mut Txn<'_>, queue: &Queue) -> Result<(), Fault> {
    let mut words = [0; RING_SLOTS];
    for (nth, word) in words.iter_mut().enumerate() {
        *word = txn.get_word(queue.ring() + nth as u64 * CELL_BYTES)?;
    }
    let position = MessageRing::of(queue.ring(), words).next_position();
    txn.set_word(at!(queue, count), packed((position as u32).wrapping_neg(), 0))
}

/// Messages sent since the queue was made, modulo 2^32.
pub(crate) fn sent(map: &Map, queue: &Queue) -> Result<u32, Fault> {
    let mut past_ring_word = load_word(map, at!(queue, count))?;
    let mut sent = 0;
    for _ in 0..MOST_LOOKS {
        let position = MessageRing::read(map, queue.ring())?.next_position();
        let now = load_word(map, at!(queue, count))?;
        sent = (position as u32).wrapping_add(past_ring(now));
        // The same before and after: they belong together.
        if past_ring(now) == past_ring(past_ring_word) {
            break;
        }
        past_ring_word = now;
    }
    Ok(sent)
}
