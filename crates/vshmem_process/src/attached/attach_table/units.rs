//! Devices that map larger units than a page: a unit stays while there is a piece in it.

use std::ops::Range;

use super::table::Table;

/// Of the units around a range, which are `units`, those in which no piece has an address that lies
/// outside of the range. `unit` is the length of one, or of the whole range if that is less.
pub fn without_others<const MOST: usize>(
    table: &Table<MOST>,
    range: Range<usize>,
    units: Range<usize>,
    unit: usize,
) -> Range<usize> {
    let is_used = |start: usize, end: usize| {
        start < end && table.find(|piece| piece.touches(start, end)).is_some()
    };
    let mut alone = units.clone();
    if is_used(units.start, range.start) {
        alone.start = units.start.saturating_add(unit).min(units.end);
    }
    if is_used(range.end, units.end) {
        alone.end = units.end.saturating_sub(unit).max(alone.start);
    }
    alone
}
