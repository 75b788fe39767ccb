//! What becomes of pieces when the kernel has done something to a range.

use super::piece::Piece;
use super::table::{Table, TooMany};

/// What counts attaches: the pool.
pub trait Counts {
    /// One attach more of a segment that is attached already.
    fn one_more(&self, id: i32);
    /// One attach less.
    fn one_less(&self, id: i32);
}

/// Cuts the pieces that overlap a range at its ends, and hands each part inside to `each`, which
/// says what becomes of it. Counts follow: one attach per piece. Pieces that are not `touched` stay
/// as they are; what `each` returns must not be touched again, or not overlap the range any more.
pub fn recut<const MOST: usize>(
    table: &Table<MOST>,
    counts: &impl Counts,
    start: usize,
    bytes: usize,
    touched: impl Fn(Piece) -> bool,
    mut each: impl FnMut(Piece) -> Option<Piece>,
) {
    let end = start.saturating_add(bytes);
    while let Some(piece) = table.take(|piece| piece.touches(start, end) && touched(piece)) {
        let inside = Piece {
            start: piece.start.max(start),
            bytes: piece.end().min(end) - piece.start.max(start),
            ..piece
        };
        let before = (piece.start < start).then(|| Piece { bytes: start - piece.start, ..piece });
        let behind =
            (piece.end() > end).then(|| Piece { start: end, bytes: piece.end() - end, ..piece });
        let mut parts = 0;
        for part in [before, each(inside), behind].into_iter().flatten() {
            // Failures cannot be reported: the mapping has changed whatever we say.
            if table.add(part).is_ok() {
                parts += 1;
            }
        }
        if parts == 0 {
            counts.one_less(piece.id);
        }
        for _ in 1..parts {
            counts.one_more(piece.id);
        }
    }
}

/// Takes a range that is no longer mapped, or no longer a segment's, out of the attach table.
pub fn take_range<const MOST: usize>(
    table: &Table<MOST>,
    counts: &impl Counts,
    start: usize,
    bytes: usize,
) {
    recut(table, counts, start, bytes, |_| true, |_| None);
}

/// A mapping that was made longer in place: its piece ends later.
///
/// # Errors
/// The table is full; the piece is lost then.
pub fn advance<const MOST: usize>(
    table: &Table<MOST>,
    start: usize,
    bytes: usize,
    more: usize,
) -> Result<(), TooMany> {
    let end = start.saturating_add(bytes);
    match table.take(|piece| piece.holds(start, bytes) && piece.end() == end) {
        Some(piece) => table.add(Piece { bytes: piece.bytes + more, ..piece }),
        None => Ok(()),
    }
}
