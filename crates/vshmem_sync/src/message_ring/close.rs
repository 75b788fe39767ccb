//! Closing a ring, and what a change under the lock writes into one that is closed.

use vshmem_mem::{Map, spin_hint};

use super::ring::MessageRing;
use super::slot::{CHUNK, CLOSED, FULL, LAP, LAP_SHIFT, OLDEST, RingSlot, laps_from};
use crate::crash::crash_point;
use crate::fault::Fault;
use vshmem_wire::{Place, RawCell};

/// Attempts after which a ring that cannot be closed is taken to be corrupt: almost every attempt
/// that failed has met another client that sent or received.
const MOST_LOOKS: u32 = 1 << 16;

impl<const N: usize> MessageRing<N> {
    /// Whether threads can send and receive only under the lock.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.first_open().is_none()
    }

    /// What has to be closed next for the ring to stand still: the tail, then the messages.
    fn first_open(&self) -> Option<RingSlot<N>> {
        let tail = self.slot_of(self.tail);
        std::iter::once(tail).chain(self.messages()).find(|ring_slot| !ring_slot.is_closed())
    }

    /// Closes the ring at `base`: when this returns, it has been frozen.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn close(map: &Map, base: Place<[RawCell; N]>) -> Result<(), Fault> {
        let mut last = None;
        for _ in 0..MOST_LOOKS {
            let ring = Self::read(map, base)?;
            // Words do not come back, so the same twice are those of one moment.
            if last == Some(ring.words) && !ring.makes_sense() {
                break;
            }
            let Some(ring_slot) = ring.first_open() else { return Ok(()) };
            last = Some(ring.words);
            if map.replace(ring_slot.at.word(), ring_slot.word, ring_slot.word | CLOSED)? {
                let is_tail = ring_slot.index == ring.slot_of(ring.tail).index;
                crash_point("msg-close", if is_tail { "tail" } else { "message" });
            } else {
                spin_hint();
            }
        }
        Err(Fault::corrupt(base, "a ring that cannot be closed"))
    }

    /// Closes the tail of the ring at `base` alone: when this returns, there was a moment after
    /// which no thread has sent.
    ///
    /// # Errors
    /// When the ring is corrupt.
    pub fn close_tail(map: &Map, base: Place<[RawCell; N]>) -> Result<(), Fault> {
        for _ in 0..MOST_LOOKS {
            let ring = Self::read(map, base)?;
            let tail = ring.slot_of(ring.tail);
            if tail.is_closed() {
                return Ok(());
            }
            if map.replace(tail.at.word(), tail.word, tail.word | CLOSED)? {
                crash_point("msg-close", "barred");
            }
        }
        Err(Fault::corrupt(base, "a ring that cannot be closed"))
    }

    /// The slot of the tail, if it is full with a message that lies in the slot itself.
    #[must_use]
    pub fn inline_tail(&self) -> Option<RingSlot<N>> {
        let ring_slot = self.slot_of(self.tail);
        (ring_slot.is_full() && ring_slot.is_inline()).then_some(ring_slot)
    }

    /// What a change under the lock has to write to let senders pass a closed tail: the slot and
    /// its new word. The swap of a sender that looked before the tail was closed fails, because a
    /// free slot is skipped, as if a message had been sent and received. `chunk` holds a copy of
    /// the message of [`Self::inline_tail`]. `None` if the tail is not closed, or that message has
    /// no chunk.
    #[must_use]
    pub fn words_to_pass(&self, chunk: Option<u32>) -> Option<(RingSlot<N>, u64)> {
        let ring_slot = self.slot_of(self.tail);
        let next = match self.inline_tail() {
            // The change raises the tag, which is its payload.
            Some(inline) => inline.moved_to(chunk?),
            // No thread could send into it before either.
            None if ring_slot.is_full() => ring_slot.word & !CLOSED,
            // There may be messages before a position that is skipped.
            None => ring_slot.word.wrapping_add(LAP) & !(CLOSED | CHUNK | OLDEST),
        };
        ring_slot.is_closed().then_some((ring_slot, next))
    }

    /// Whether a change of the word of a slot is such a skip: a position that no message was sent
    /// to.
    #[inline]
    #[must_use]
    pub fn is_skip(before: u64, after: u64) -> bool {
        before & FULL == 0 && laps_from(before, after) == 1
    }

    /// What a change under the lock has to write to take all messages out of a frozen ring: the
    /// slots and their new words. The ring stays closed: the tail does.
    pub fn words_to_empty(&self) -> impl Iterator<Item = (RingSlot<N>, u64)> + '_ {
        let tail = self.slot_of(self.tail);
        self.messages().map(move |ring_slot| {
            let free = ring_slot.taken().word & !(CLOSED | CHUNK | OLDEST);
            // With all positions in use there was no free slot for the barrier.
            (ring_slot, if ring_slot.index == tail.index { free | CLOSED } else { free })
        })
    }

    /// What a change under the lock has to write to open a ring that is closed and empty: the slot
    /// and its new word. `None` for any other ring.
    #[must_use]
    pub fn words_to_open(&self) -> Option<(RingSlot<N>, u64)> {
        self.words_to_pass(None).filter(|_| self.head == self.tail && self.makes_sense())
    }

    /// What a change under the lock has to write to close a ring that no thread uses yet. `None` if
    /// it is closed.
    #[must_use]
    pub fn words_to_close(&self) -> Option<(RingSlot<N>, u64)> {
        let ring_slot = self.slot_of(self.tail);
        (!self.is_frozen()).then_some((ring_slot, ring_slot.word | CLOSED))
    }

    /// What a change under the lock has to write to turn invalid words into an open and empty ring.
    /// A late compare-and-swap by any client fails: none of the new words has been used before.
    pub fn words_to_renew(&self) -> impl Iterator<Item = (RingSlot<N>, u64)> + '_ {
        let words = self.renewed_words();
        (0..N).map(move |index| (self.ring_slot(index), words[index]))
    }

    /// The words of that ring.
    #[must_use]
    pub fn renewed_words(&self) -> [u64; N] {
        let most = self.words.iter().map(|word| laps_from(self.words[0], *word)).max();
        let lap = (self.words[0] >> LAP_SHIFT).wrapping_add_signed(most.unwrap_or(0) + 1);
        [lap << LAP_SHIFT; N]
    }
}
