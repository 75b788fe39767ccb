//! The ends of a ring, as two slots beside each other show them.
//!
//! Reading all words takes the cache line away from the thread at the other end of the ring, with
//! each message. Usually two words of one line say enough. Let p be the position that a slot is
//! free for or full with, and q = p - 1 the one of the slot before it:
//! * If q has been filled, then all below it have been, as only the lowest position is filled. So
//!   if the slot is free for p, that is the tail.
//! * If q has been taken, and the word says that all before q had been taken by then (`OLDEST`),
//!   then p is the lowest position that has not been taken. So its message is the oldest; or if the
//!   slot is free for p, the ring is empty.
//!
//! * If p is the oldest, then as long as the slot behind it is free for p + 1 it is the only
//!   message: nothing has been filled behind it.
//!
//! The first two stay true for ever; the third holds at the moment that the slot is read. That the
//! slot is still as it was the compare-and-swap proves, as everywhere. Where to look is a guess,
//! which proves nothing and needs no proof: a thread that finds something else here reads all
//! words.
//!
//! # Long messages
//! A message carries the mark LARGE if its bytes or those of another one in the ring have to be
//! counted when it is sent. So if that of q has no mark, none of those in the ring is long.

use vshmem_mem::{Map, Ordering, WordsRef};
use vshmem_wire::{CELL_BYTES, Place, RawCell};

use super::ring::SLOTS_OF_LINE;
use super::slot::{CLOSED, FULL, LAP, LARGE, OLDEST, RingSlot};
use crate::fault::Fault;

/// A ring of `N` slots in a structure of `WORDS` words, which was found and checked once.
#[derive(Debug, Clone, Copy)]
pub struct RingWords<'a, const WORDS: usize, const N: usize> {
    words: WordsRef<'a, WORDS>,
    /// Where in the structure it begins, in bytes.
    begin: usize,
    /// Where that is in the pool.
    base: Place<[RawCell; N]>,
}

impl<'a, const WORDS: usize, const N: usize> RingWords<'a, WORDS, N> {
    /// The ring at byte `begin` of a structure, which is `base` of the pool.
    #[inline(always)]
    #[must_use]
    pub fn of(words: WordsRef<'a, WORDS>, begin: usize, base: Place<[RawCell; N]>) -> Self {
        Self { words, begin, base }
    }

    /// Where it begins in the pool.
    #[inline]
    #[must_use]
    pub fn base(self) -> Place<[RawCell; N]> {
        self.base
    }

    #[inline(always)]
    fn slot(self, index: usize, is_oldest: bool) -> RingSlot<N> {
        let index = index % N;
        let at = index * CELL_BYTES as usize;
        // Acquire: pairs with FILL and TAKE in `slot.rs`.
        let word = self.words.load(self.begin + at, Ordering::Acquire);
        RingSlot { at: self.base.element(index as u64), word, index, is_oldest }
    }

    /// The slot of the tail, if that is the slot `guess`, no message in the ring is long, and the
    /// tail is free; and the slot before it.
    #[inline(always)]
    #[must_use]
    pub fn tail_at(self, guess: usize) -> Option<(RingSlot<N>, RingSlot<N>)> {
        let ring_slot = self.slot(guess, false);
        let before = self.slot(guess + N - 1, false);
        ring_slot.is_tail_after(before.word).then_some((ring_slot, before))
    }

    /// The slot of the oldest message, or of the tail if there is none: if that is the slot
    /// `guess`.
    #[inline(always)]
    #[must_use]
    pub fn head_at(self, guess: usize) -> Option<RingSlot<N>> {
        let head = self.slot(guess, true);
        head.is_head_after(self.slot(guess + N - 1, false).word).then_some(head)
    }
}

impl<const N: usize> RingSlot<N> {
    /// Reads a slot of the ring at `base`.
    #[inline(always)]
    fn read(map: &Map, base: Place<[RawCell; N]>, index: usize) -> Result<Self, Fault> {
        let index = index % N;
        let at = base.element(index as u64);
        // Acquire: pairs with FILL and TAKE in `slot.rs`.
        Ok(Self { at, word: map.load(at.word(), Ordering::Acquire)?, index, is_oldest: false })
    }

    /// Whether the slot before this one, with the word `before`, has been filled with the position
    /// before this one's, which is q above.
    #[inline(always)]
    fn follows(self, before: u64) -> bool {
        let lap = self.word & !(LAP - 1);
        let lap_before = if self.index == 0 { lap.wrapping_sub(LAP) } else { lap };
        let full_or_taken =
            if before & FULL != 0 { lap_before } else { lap_before.wrapping_add(LAP) };
        before & !(LAP - 1) == full_or_taken
    }

    /// Whether this is the tail, which is free, of a ring where no message is long: as far as the
    /// word of the slot before it says.
    #[inline(always)]
    fn is_tail_after(self, before: u64) -> bool {
        let shows_tail = match before & FULL {
            0 => before & (OLDEST | CLOSED) == OLDEST,
            _ => before & (LARGE | CLOSED) == 0,
        };
        self.word & (FULL | CLOSED) == 0 && shows_tail && self.follows(before)
    }

    /// Whether this is the oldest message, or the tail if there is none: as far as the word of the
    /// slot before it says.
    #[inline(always)]
    fn is_head_after(self, before: u64) -> bool {
        let shows_head = before & (FULL | OLDEST | CLOSED) == OLDEST;
        !self.is_closed() && shows_head && self.follows(before)
    }

    /// The slot before the tail, which is this slot; `None` if the tail is somewhere else by now.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn last_before(self, map: &Map) -> Result<Option<Self>, Fault> {
        let before = Self::read(map, self.base(), self.index + N - 1)?;
        Ok(self.follows(before.word).then_some(before))
    }

    /// The slot of the tail, if this is the oldest message and the only one: all before it have
    /// been taken, and the next position is free.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline(always)]
    pub fn tail_if_alone(self, map: &Map) -> Result<Option<Self>, Fault> {
        let next = Self::read(map, self.base(), self.index + 1)?;
        let lap = self.word & !(LAP - 1);
        let lap_next = if next.index == 0 { lap.wrapping_add(LAP) } else { lap };
        let is_free = next.word & (FULL | CLOSED) == 0 && next.word & !(LAP - 1) == lap_next;
        Ok((self.is_oldest && self.is_full() && is_free).then_some(next))
    }

    /// The slot after this one, if it is on the same cache line.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline(always)]
    pub fn next_on_line(self, map: &Map) -> Result<Option<Self>, Fault> {
        let next = self.index + 1;
        if next.is_multiple_of(SLOTS_OF_LINE) {
            return Ok(None);
        }
        Self::read(map, self.base(), next).map(Some)
    }
}
