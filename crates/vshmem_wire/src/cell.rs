//! The cell: a word and its tag, replaced together by one compare-and-swap.

use core::marker::PhantomData;

use crate::place::Place;

/// Bytes of a cell.
pub const CELL_BYTES: u64 = 16;
/// Bytes of a plain word, which is no cell.
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

impl Place<RawCell> {
    /// The word of a cell, for who does not ask whether it was written.
    #[inline]
    #[must_use]
    pub const fn word(self) -> Place<u64> {
        crate::field!(self, RawCell, word)
    }

    /// The tag of a cell, for who only asks whether it was written.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> Place<u64> {
        crate::field!(self, RawCell, tag)
    }
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

/// A cell whose word is one of the numbers of the states `S`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct StateCell<S> {
    cell: RawCell,
    states: PhantomData<S>,
}

impl<S> Place<StateCell<S>> {
    /// The cell as any other: for who replaces it, or shows a number that is no state.
    #[inline]
    #[must_use]
    pub const fn cell(self) -> Place<RawCell> {
        Place::at(self.offset())
    }
}

/// States of something in a pool, as the numbers of a cell.
pub trait State: Copy + PartialEq {
    /// Which state a number is. A peer may have written one that is none.
    fn of(number: u32) -> Option<Self>;

    /// Its number.
    fn number(self) -> u32;
}

/// Makes an enumeration that is the states of a [`StateCell`].
macro_rules! states {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $state:ident = $number:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$doc])* $state = $number,)* }

        impl $crate::State for $name {
            #[inline]
            fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$state),)*
                    _ => None,
                }
            }

            #[inline]
            fn number(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use states;

const _: () = assert!(size_of::<StateCell<()>>() == size_of::<RawCell>(), "no more than a cell");
const _: () = assert!(size_of::<RawCell>() as u64 == CELL_BYTES, "a cell is two words");
