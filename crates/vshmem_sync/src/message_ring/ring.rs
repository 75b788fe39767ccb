//! Reading a ring.

use vshmem_mem::{Map, Ordering, fence};
use vshmem_wire::{CELL_BYTES, RING_SLOTS};

use super::send_backoff::Room;
use super::slot::{CLOSED, FULL, LARGE, Spot, laps_from};
use crate::fault::Fault;

/// Where a sender has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Into this slot.
    Free(Spot),
    /// There are eight messages already.
    Full,
    /// Under the lock.
    Closed,
}

/// The words of a ring, as they were read.
#[derive(Debug, Clone, Copy)]
pub struct MessageRing {
    pub(super) base: u64,
    pub(super) words: [u64; RING_SLOTS],
    /// The lowest position that has not been taken, counted from the lap of the first word; so all below.
    pub(super) head: i64,
    /// The lowest position that has not been filled.
    pub(super) tail: i64,
    /// The bits that any word has.
    pub(super) any: u64,
}

impl MessageRing {
    /// Reads the ring at `base`.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn look(map: &Map, base: u64) -> Result<Self, Fault> {
        let mut ring = Self::at(base);
        ring.refresh(map)?;
        Ok(ring)
    }

    /// The ring at `base`, to be read by [`Self::refresh`].
    #[inline]
    #[must_use]
    pub fn at(base: u64) -> Self {
        Self::unread(base, [0; RING_SLOTS])
    }

    /// Reads the words. In place: a copy of words that have just been stored waits until they all are.
    ///
    /// # Errors
    /// When they are outside the pool.
    #[inline]
    pub fn refresh(&mut self, map: &Map) -> Result<(), Fault> {
        self.words = map.load_row(self.base)?;
        self.find_ends();
        Ok(())
    }

    /// A ring of these words.
    #[must_use]
    pub fn of(base: u64, words: [u64; RING_SLOTS]) -> Self {
        let mut ring = Self::unread(base, words);
        ring.find_ends();
        ring
    }

    #[inline]
    fn unread(base: u64, words: [u64; RING_SLOTS]) -> Self {
        Self { base, words, head: 0, tail: 0, any: 0 }
    }

    #[inline]
    fn find_ends(&mut self) {
        let (mut head, mut tail) = (i64::MAX, i64::MAX);
        let mut any = 0;
        for (index, word) in self.words.iter().enumerate() {
            let position = laps_from(self.words[0], *word) * RING_SLOTS as i64 + index as i64;
            let next = position + if word & FULL != 0 { RING_SLOTS as i64 } else { 0 };
            head = head.min(position);
            tail = tail.min(next);
            any |= word;
        }
        (self.head, self.tail, self.any) = (head, tail, any);
    }

    #[inline]
    pub(super) fn spot(&self, index: usize) -> Spot {
        let at = self.base + index as u64 * CELL_BYTES;
        Spot { at, word: self.words[index], index }
    }

    /// The slot of a position.
    #[inline]
    pub(super) fn slot_of(&self, position: i64) -> Spot {
        self.spot(position as usize % RING_SLOTS)
    }

    /// The position that a slot is free for or full with.
    #[inline]
    pub(super) fn position_of(&self, spot: Spot) -> i64 {
        laps_from(self.words[0], spot.word) * RING_SLOTS as i64 + spot.index as i64
    }

    /// Where a sender has to go.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> Tail {
        let spot = self.slot_of(self.tail);
        match spot.word & (FULL | CLOSED) {
            0 => Tail::Free(spot),
            FULL => Tail::Full,
            _ => Tail::Closed,
        }
    }

    /// The slot behind one.
    #[inline]
    #[must_use]
    pub fn behind(&self, spot: Spot) -> Spot {
        self.spot((spot.index + 1) % RING_SLOTS)
    }

    /// Whether there may be a message in it that is longer than those for which there is always room.
    #[inline]
    #[must_use]
    pub fn may_hold_large(&self) -> bool {
        self.any & LARGE != 0
    }

    /// How much room there is by now in a ring that was full.
    #[inline]
    #[must_use]
    pub fn room(&self, map: &Map) -> Room {
        // Half of the ring is free once the message has been taken that is so many behind the oldest.
        let half = self.slot_of(self.tail + RING_SLOTS as i64 / 2 - 1);
        let is_same =
            |spot: Spot| map.load(spot.at, Ordering::Acquire).is_ok_and(|word| word == spot.word);
        match (is_same(half), is_same(self.slot_of(self.tail))) {
            (false, _) => Room::Plenty,
            (true, false) => Room::Some,
            (true, true) => Room::None,
        }
    }

    /// Its messages, oldest first: at positions below all that have not been filled yet.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = Spot> + '_ {
        // More than that only words make that are not those of one moment.
        let end = self.tail.min(self.head + RING_SLOTS as i64);
        (self.head..end).filter_map(|position| {
            let spot = self.slot_of(position);
            (spot.is_full() && self.position_of(spot) == position).then_some(spot)
        })
    }

    /// The slots that hold no message: some note the chunk of the message that was taken last.
    pub fn vacant(&self) -> impl Iterator<Item = Spot> + '_ {
        (0..RING_SLOTS).map(|index| self.spot(index)).filter(|spot| !spot.is_full())
    }

    /// Whether the words can be those of one moment: up to the tail messages and gaps that others have left, then free slots; and
    /// what is closed is the tail or a message. (A message may be closed while the tail is not: somebody has let senders pass
    /// while another was closing the ring.)
    #[must_use]
    pub fn makes_sense(&self) -> bool {
        let slots = RING_SLOTS as i64;
        self.tail - self.head <= slots
            && (self.head..self.head + slots).all(|position| {
                let spot = self.slot_of(position);
                let is_before_tail = position < self.tail;
                let is_taken = is_before_tail && !spot.is_full();
                let may_be_closed = spot.is_full() || position == self.tail;
                let is_inline_for_nothing =
                    spot.is_inline() && (!spot.is_full() || spot.is_large());
                !is_inline_for_nothing
                    && self.position_of(spot) == if is_taken { position + slots } else { position }
                    && (is_before_tail || !spot.is_full())
                    && (may_be_closed || !spot.is_closed())
            })
    }

    /// Whether there may be more for a receiver than it has found here: the word of the tail is another one now. To be asked
    /// after the messages have been looked at.
    #[inline]
    #[must_use]
    pub fn has_moved(&self, map: &Map) -> bool {
        let tail = self.slot_of(self.tail);
        // After whatever was read of the messages.
        fence(Ordering::Acquire);
        !map.load(tail.at, Ordering::Acquire).is_ok_and(|word| word == tail.word)
    }

    /// Whether the words are the same now: then they are those of one moment.
    ///
    /// # Errors
    /// When they are outside the pool.
    pub fn still(&self, map: &Map) -> Result<bool, Fault> {
        Ok(map.load_row(self.base)? == self.words)
    }
}
