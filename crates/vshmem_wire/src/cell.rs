//! The cell: one 64-bit word that is only ever changed by compare-and-swap.

/// Bytes of a cell.
pub const CELL_BYTES: u64 = 8;

/// A cell as it lies in the pool. Read and written through the accessors of `vshmem_mem` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct RawCell(pub u64);

/// A cell taken apart: a value, and how many times the cell has been written.
///
/// The version is what makes a late write harmless: each write raises it by one, so a
/// compare-and-swap prepared by somebody who was stopped in between no longer finds what it
/// expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// How often the cell was written, modulo 2^32.
    pub version: u32,
    /// What it says.
    pub value: u32,
}

impl Cell {
    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self { version: (word >> 32) as u32, value: word as u32 }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        ((self.version as u64) << 32) | self.value as u64
    }

    /// The word that replaces `word` when `value` is written.
    #[inline]
    #[must_use]
    pub const fn successor(word: u64, value: u32) -> u64 {
        Self { version: ((word >> 32) as u32).wrapping_add(1), value }.pack()
    }
}
