//! Reading a ring.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{CELL_BYTES, Place, RING_SLOTS, RawCell};

use super::send_backoff::RingSpace;
use super::slot::{CLOSED, FULL, LARGE, RingSlot, laps_from, positions};
use crate::fault::Fault;

/// Slots on one cache line.
pub(super) const SLOTS_OF_LINE: usize = 64 / CELL_BYTES as usize;

/// Where a sender has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail<const N: usize = RING_SLOTS> {
    /// Into this slot.
    Free(RingSlot<N>),
    /// There is a message in each slot already.
    Full,
    /// Under the lock.
    Closed,
}

/// The words of a ring of `N` slots, as they were read.
#[derive(Debug, Clone, Copy)]
pub struct MessageRing<const N: usize = RING_SLOTS> {
    pub(super) base: Place<[RawCell; N]>,
    pub(super) words: [u64; N],
    /// The lowest position that has not been taken, counted from the lap of the first word; so all
    /// below.
    pub(super) head: i64,
    /// The lowest position that has not been filled.
    pub(super) tail: i64,
    /// The bit `LARGE`, if any message has it.
    pub(super) any: u64,
}

impl<const N: usize> MessageRing<N> {
    /// Reads the ring at `base`.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn read(map: &Map, base: Place<[RawCell; N]>) -> Result<Self, Fault> {
        let mut ring = Self::at(base);
        ring.refresh(map)?;
        Ok(ring)
    }

    /// The ring at `base`, to be read by [`Self::refresh`].
    #[inline]
    #[must_use]
    pub fn at(base: Place<[RawCell; N]>) -> Self {
        Self::unread(base, [0; N])
    }

    /// Where it begins.
    #[inline]
    #[must_use]
    pub fn base(&self) -> Place<[RawCell; N]> {
        self.base
    }

    /// Reads the words. In place: a copy of words that have just been stored waits until they all
    /// are.
    ///
    /// # Errors
    /// When they are outside the pool.
    #[inline]
    pub fn refresh(&mut self, map: &Map) -> Result<(), Fault> {
        // Acquires: pairs with FILL and TAKE in `slot.rs`.
        self.words = map.load_row(self.base)?;
        self.find_ends();
        Ok(())
    }

    /// A ring of these words.
    #[must_use]
    pub fn of(base: Place<[RawCell; N]>, words: [u64; N]) -> Self {
        let mut ring = Self::unread(base, words);
        ring.find_ends();
        ring
    }

    #[inline]
    fn unread(base: Place<[RawCell; N]>, words: [u64; N]) -> Self {
        Self { base, words, head: 0, tail: 0, any: 0 }
    }

    #[inline]
    fn find_ends(&mut self) {
        let (mut head, mut tail) = (i64::MAX, i64::MAX);
        let mut any = 0;
        for (index, word) in self.words.iter().enumerate() {
            let position = laps_from(self.words[0], *word) * N as i64 + index as i64;
            let next = position + if word & FULL != 0 { N as i64 } else { 0 };
            head = head.min(position);
            tail = tail.min(next);
            // Of a free slot the same bit says something else.
            any |= word & (word << (LARGE.trailing_zeros() - FULL.trailing_zeros()));
        }
        (self.head, self.tail, self.any) = (head, tail, any);
    }

    #[inline]
    pub(super) fn ring_slot(&self, index: usize) -> RingSlot<N> {
        let at = self.base.element(index as u64);
        RingSlot { at, word: self.words[index], index, is_oldest: false }
    }

    /// The slot of a position.
    #[inline]
    pub(super) fn slot_of(&self, position: i64) -> RingSlot<N> {
        self.ring_slot(position as usize % N)
    }

    /// The position that a slot is free for or full with.
    #[inline]
    pub(super) fn position_of(&self, ring_slot: RingSlot<N>) -> i64 {
        laps_from(self.words[0], ring_slot.word) * N as i64 + ring_slot.index as i64
    }

    /// Where a sender has to go.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> Tail<N> {
        let ring_slot = self.slot_of(self.tail);
        match ring_slot.word & (FULL | CLOSED) {
            0 => Tail::Free(ring_slot),
            FULL => Tail::Full,
            _ => Tail::Closed,
        }
    }

    /// The slot of the lowest position that has not been filled.
    #[inline]
    #[must_use]
    pub fn tail_slot(&self) -> RingSlot<N> {
        self.slot_of(self.tail)
    }

    /// The position that the next message is sent to, counted from the ring's first.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        let ring_slot = self.slot_of(self.tail);
        let ahead = if ring_slot.is_full() { N as u64 } else { 0 };
        (ring_slot.position() + ahead) % positions(N)
    }

    /// The slot behind one.
    #[inline]
    #[must_use]
    pub fn behind(&self, ring_slot: RingSlot<N>) -> RingSlot<N> {
        self.ring_slot((ring_slot.index + 1) % N)
    }

    /// Whether there may be a message in it that is longer than those for which there is always
    /// room.
    #[inline]
    #[must_use]
    pub fn may_hold_large(&self) -> bool {
        self.any & LARGE != 0
    }

    /// How much room there is by now in a ring that was full; `has_time`: a single free slot counts
    /// as well.
    ///
    /// Where receivers go on to the other cache line of the ring all slots of this one are free:
    /// from then on sender and receivers write into a line each. Until then a look at the tail
    /// takes the line away that receivers write into.
    #[inline]
    #[must_use]
    pub fn room(&self, map: &Map, has_time: bool) -> RingSpace {
        let of_line = SLOTS_OF_LINE as i64;
        let next_line = self.slot_of((self.tail.div_euclid(of_line) + 1) * of_line);
        let is_same = |ring_slot: RingSlot<N>| {
            map.load(ring_slot.at.word(), Ordering::Acquire)
                .is_ok_and(|word| word == ring_slot.word)
        };
        if !is_same(next_line) {
            return RingSpace::Plenty;
        }
        let is_some = has_time && !is_same(self.slot_of(self.tail));
        if is_some { RingSpace::Some } else { RingSpace::None }
    }

    /// Its messages, oldest first: at positions below all that have not been filled yet.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = RingSlot<N>> + '_ {
        // More than that only words make that are not those of one moment.
        let end = self.tail.min(self.head + N as i64);
        (self.head..end).filter_map(|position| {
            let ring_slot = self.slot_of(position);
            let is_oldest = position == self.head;
            (ring_slot.is_full() && self.position_of(ring_slot) == position)
                .then_some(RingSlot { is_oldest, ..ring_slot })
        })
    }

    /// The slots that hold no message: some note the chunk of the message that was taken last.
    pub fn vacant(&self) -> impl Iterator<Item = RingSlot<N>> + '_ {
        (0..N).map(|index| self.ring_slot(index)).filter(|ring_slot| !ring_slot.is_full())
    }

    /// Whether the words can be those of one moment: up to the tail messages and gaps that others
    /// have left, then free slots; and what is closed is the tail or a message. (A message may be
    /// closed while the tail is not: another thread has let senders pass while another was closing
    /// the ring.)
    #[must_use]
    pub fn makes_sense(&self) -> bool {
        let slots = N as i64;
        self.tail - self.head <= slots
            && (self.head..self.head + slots).all(|position| {
                let ring_slot = self.slot_of(position);
                let is_before_tail = position < self.tail;
                let is_taken = is_before_tail && !ring_slot.is_full();
                let may_be_closed = ring_slot.is_full() || position == self.tail;
                let is_inline_for_nothing = ring_slot.is_inline() && !ring_slot.is_full();
                !is_inline_for_nothing
                    && self.position_of(ring_slot)
                        == if is_taken { position + slots } else { position }
                    && (is_before_tail || !ring_slot.is_full())
                    && (may_be_closed || !ring_slot.is_closed())
            })
    }

    /// Whether there may be more for a receiver than it has found here: the word of the tail is
    /// another one now. To be asked after the messages have been looked at.
    #[inline]
    #[must_use]
    pub fn has_moved(&self, map: &Map) -> bool {
        self.tail_slot().has_moved(map)
    }

    /// Whether the words are the same now: then they are those of one moment.
    ///
    /// # Errors
    /// When they are outside the pool.
    pub fn still(&self, map: &Map) -> Result<bool, Fault> {
        Ok(map.load_row(self.base)? == self.words)
    }
}
