//! What goes through a queue, read off without a store of its own on the way through the ring.
//!
//! Each message that is sent through the ring takes a position, and so the position of the tail
//! counts them. What is added to beside it, in [`ObjectHeader::used`], is written under the lock
//! alone: a message that went past the ring is one more, a position that was skipped one less.

use vshmem_mem::Map;
use vshmem_sync::{Fault, LockContext, MessageRing, Txn, field, load_word};
use vshmem_wire::{CELL_BYTES, ObjectHeader, RING_SLOTS};

use crate::context::Context;
use crate::error::Verdict;
use crate::memory::change;
use crate::msg::queue::Queue;

impl Queue {
    /// Counts messages that were sent past the ring; fewer than positions that were skipped are a
    /// negative number.
    pub(super) fn count_sent(&self, map: &Map, messages: u64) {
        // A number that is only shown: what is outside the pool is found by others.
        let _ = map.add(field!(self.slot, ObjectHeader, used), messages);
    }

    /// Runs a change under the queue's lock, and counts the positions of the ring that it skips.
    pub(super) fn change<'a, T>(
        &self,
        context: &'a Context,
        lock_context: &LockContext<'a>,
        name: &'static str,
        mut body: impl FnMut(&mut Txn<'a>) -> Verdict<T>,
    ) -> Verdict<T> {
        let ring = self.ring()..self.ring() + RING_SLOTS as u64 * CELL_BYTES;
        let mut skips = 0_u64;
        let done = change::run(context, lock_context, self.lock(), name, |txn| {
            let answer = body(txn);
            skips = 0;
            txn.each_written(|offset, before, after| {
                let is_skip = ring.contains(&offset) && MessageRing::is_skip(before, after);
                skips += u64::from(is_skip);
            });
            answer
        })?;
        if skips != 0 {
            self.count_sent(context.pool().map(), skips.wrapping_neg());
        }
        Ok(done)
    }

    /// Stages that no message was sent yet: where the ring begins is taken away from what is
    /// counted.
    pub(super) fn count_from_here(&self, txn: &mut Txn<'_>) -> Result<(), Fault> {
        let mut words = [0; RING_SLOTS];
        for (nth, word) in words.iter_mut().enumerate() {
            *word = txn.get_word(self.ring() + nth as u64 * CELL_BYTES)?;
        }
        let position = MessageRing::of(self.ring(), words).next_position();
        txn.set_word(field!(self.slot, ObjectHeader, used), position.wrapping_neg())
    }

    /// Messages sent since the queue was made, modulo [`MessageRing::POSITIONS`].
    pub(crate) fn sent(&self, map: &Map) -> Result<u64, Fault> {
        let past_ring = load_word(map, field!(self.slot, ObjectHeader, used))?;
        let position = MessageRing::look(map, self.ring())?.next_position();
        Ok(position.wrapping_add(past_ring) % MessageRing::POSITIONS)
    }
}
