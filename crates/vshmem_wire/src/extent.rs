//! Bookkeeping of the data pages: which are in use, and which may hold old data.

use crate::cell::states;
use crate::{RawCell, StateCell};

/// Data pages that one cell of the dirty area speaks for: a bit each, set when the page may hold
/// old data.
pub const PAGES_PER_MARK: u32 = 32;

/// A range of data pages. The ranges of a pool lie end to end: two free ones never touch, so there
/// are at most twice as many as segments, and a few.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ExtentSlot {
    /// Where it stands.
    pub state: StateCell<ExtentState>,
    /// First page.
    pub first: RawCell,
    /// Pages.
    pub pages: RawCell,
    /// The extent that ends where this one begins, slot plus one.
    pub before: RawCell,
    /// The extent that begins where this one ends, slot plus one.
    pub after: RawCell,
    /// Next free extent of the bin, or next unused slot, plus one.
    pub next: RawCell,
    /// Previous free extent of the bin, plus one.
    pub previous: RawCell,
    /// Room for later.
    pub spare: RawCell,
}

states! {
    /// What an extent is.
    pub enum ExtentState {
        /// No extent: an unused slot.
        Unused = 0,
        /// Pages that no segment has.
        Free = 1,
        /// The pages of a segment.
        Used = 2,
        /// Pages that no segment has, while a client writes zeros into them.
        Cleaning = 3,
    }
}

/// Extent slots that so many segments can need: one each, one that is being cleaned, and the free
/// ones between, before and behind them.
#[must_use]
pub const fn extent_slots(segments: u32) -> u64 {
    2 * segments as u64 + 3
}

const _: () = assert!(size_of::<ExtentSlot>() == 128, "an extent is two cache lines");
