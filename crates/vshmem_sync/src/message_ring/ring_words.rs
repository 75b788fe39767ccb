//! The ends of a ring in a structure whose words were found and checked once: as in
//! `neighbours.rs`, in fewer instructions.

use vshmem_mem::{Ordering, WordsRef};
use vshmem_wire::CELL_BYTES;

use super::slot::RingSlot;

/// A ring of `N` slots in a structure of `WORDS` words.
#[derive(Debug, Clone, Copy)]
pub struct RingWords<'a, const WORDS: usize, const N: usize> {
    words: WordsRef<'a, WORDS>,
    /// Where in the structure it begins, in bytes.
    begin: usize,
    /// Offset of that in the pool.
    base: u64,
}

impl<'a, const WORDS: usize, const N: usize> RingWords<'a, WORDS, N> {
    /// The ring at byte `begin` of a structure, which is `base` of the pool.
    #[inline(always)]
    #[must_use]
    pub fn of(words: WordsRef<'a, WORDS>, begin: usize, base: u64) -> Self {
        Self { words, begin, base }
    }

    /// Offset of its first slot in the pool.
    #[inline]
    #[must_use]
    pub fn base(self) -> u64 {
        self.base
    }

    #[inline(always)]
    fn slot(self, index: usize, is_oldest: bool) -> RingSlot<N> {
        let index = index % N;
        let at = index * CELL_BYTES as usize;
        // Acquire: pairs with FILL and TAKE in `slot.rs`.
        let word = self.words.load(self.begin + at, Ordering::Acquire);
        RingSlot { at: self.base + at as u64, word, index, is_oldest }
    }

    /// As [`RingSlot::tail_at`], with the slot before it.
    #[inline(always)]
    #[must_use]
    pub fn tail_at(self, guess: usize) -> Option<(RingSlot<N>, RingSlot<N>)> {
        let ring_slot = self.slot(guess, false);
        let before = self.slot(guess + N - 1, false);
        ring_slot.is_tail_after(before.word).then_some((ring_slot, before))
    }

    /// As [`RingSlot::head_at`].
    #[inline(always)]
    #[must_use]
    pub fn head_at(self, guess: usize) -> Option<RingSlot<N>> {
        let head = self.slot(guess, true);
        head.is_head_after(self.slot(guess + N - 1, false).word).then_some(head)
    }
}
