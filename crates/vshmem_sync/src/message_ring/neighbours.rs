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
//! Both stays true for ever. That the slot is still as it was the compare-and-swap proves, as
//! everywhere. Where to look is a guess, which proves nothing and needs no proof: a thread that
//! finds something else here reads all words.
//!
//! # Long messages
//! A message carries the mark LARGE if its bytes or those of another one in the ring have to be
//! counted when it is sent. So if that of q has no mark, none of those in the ring is long.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{CELL_BYTES, RING_SLOTS};

use super::ring::SLOTS_OF_LINE;
use super::slot::{CLOSED, FULL, LAP, LARGE, OLDEST, RingSlot};
use crate::fault::Fault;

impl RingSlot {
    /// Reads a slot of the ring at `base`.
    #[inline]
    fn read(map: &Map, base: u64, index: usize) -> Result<Self, Fault> {
        let index = index % RING_SLOTS;
        let at = base + index as u64 * CELL_BYTES;
        // Acquire: pairs with FILL and TAKE in `slot.rs`.
        Ok(Self { at, word: map.load(at, Ordering::Acquire)?, index, is_oldest: false })
    }

    /// The word of the slot before this one, if it has been filled with the position before this
    /// one's, which is q above.
    #[inline]
    fn before(self, map: &Map, base: u64) -> Result<Option<u64>, Fault> {
        let before = Self::read(map, base, self.index + RING_SLOTS - 1)?.word;
        let lap = self.word & !(LAP - 1);
        let lap_before = if self.index == 0 { lap.wrapping_sub(LAP) } else { lap };
        let full_or_taken =
            if before & FULL != 0 { lap_before } else { lap_before.wrapping_add(LAP) };
        Ok((before & !(LAP - 1) == full_or_taken).then_some(before))
    }

    /// The slot of the tail of the ring at `base`, if that is the slot `guess`, no message in the
    /// ring is long, and the tail is free.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn tail_at(map: &Map, base: u64, guess: usize) -> Result<Option<Self>, Fault> {
        let ring_slot = Self::read(map, base, guess)?;
        if ring_slot.word & (FULL | CLOSED) != 0 {
            return Ok(None);
        }
        let is_tail = |before: u64| match before & FULL {
            0 => before & (OLDEST | CLOSED) == OLDEST,
            _ => before & (LARGE | CLOSED) == 0,
        };
        Ok(ring_slot.before(map, base)?.filter(|before| is_tail(*before)).map(|_| ring_slot))
    }

    /// The slot of the oldest message of the ring at `base`, or of the tail if there is none: if
    /// that is the slot `guess`.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn head_at(map: &Map, base: u64, guess: usize) -> Result<Option<Self>, Fault> {
        let ring_slot = Self::read(map, base, guess)?;
        if ring_slot.is_closed() {
            return Ok(None);
        }
        let is_head = |before: u64| before & (FULL | OLDEST | CLOSED) == OLDEST;
        let head = Self { is_oldest: true, ..ring_slot };
        Ok(ring_slot.before(map, base)?.filter(|before| is_head(*before)).map(|_| head))
    }

    /// The slot after this one, if it is on the same cache line.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn next_on_line(self, map: &Map, base: u64) -> Result<Option<Self>, Fault> {
        let next = self.index + 1;
        if next.is_multiple_of(SLOTS_OF_LINE) {
            return Ok(None);
        }
        Self::read(map, base, next).map(Some)
    }
}
