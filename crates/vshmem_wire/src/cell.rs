//! The cell: a word and its tag, replaced together by one compare-and-swap.

/// Bytes of a cell.
pub const CELL_BYTES: u64 = 16;
/// Bytes of a plain word: of what is no cell, as the text of a record.
pub const WORD_BYTES: u64 = 8;

/// A cell as it lies in the pool. Read and written through the accessors of `vshmem_mem` alone.
///
/// Its word comes first, so that a thread that needs only the value reads one word at the offset of
/// the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct RawCell {
    /// What it says.
    pub word: u64,
    /// How often it was written.
    pub tag: u64,
}

/// What a cell held at one moment.
///
/// Every write raises the tag by one, and the compare-and-swap compares both halves. So no pair
/// ever comes back: a thread that was stopped before its write finds another tag, and the write
/// fails. A tag of 64 bits does not wrap, however fast it is raised
/// (`docs/internals/wire-format.md`, "Counters").
///
/// A cell holds whatever fits into 64 bits. What is a number of 32 bits is read and written as
/// `u32` ([`Cell::value`], `Txn::get`, `Txn::set`, `claim_cell`); what needs all of them, as ids
/// that must not come back, as `u64` (`Cell::word`, `Txn::get_word`, `Txn::set_word`,
/// `claim_word`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// What it says.
    pub word: u64,
    /// How often it was written.
    pub tag: u64,
}

impl Cell {
    /// The number of 32 bits that it says.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u32 {
        self.word as u32
    }

    /// The cell that follows when `word` is written.
    #[inline]
    #[must_use]
    pub const fn successor(self, word: u64) -> Self {
        Self { word, tag: self.tag.wrapping_add(1) }
    }
}

const _: () = assert!(size_of::<RawCell>() as u64 == CELL_BYTES, "a cell is two words");
