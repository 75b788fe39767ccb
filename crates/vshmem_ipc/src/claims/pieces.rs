//! What one place may grant of an object: disjoint pieces of the range of bytes, in order.

use arrayvec::ArrayVec;
use vshmem_wire::LockMode;

/// The last byte that a lock can reach: OFFSET_MAX of Linux.
pub const LAST_BYTE: u64 = i64::MAX as u64;
/// Pieces that one place has of one object at most.
pub(crate) const MOST_PIECES: usize = 24;

/// Parts of a range between these at most.
pub(crate) const MOST_GAPS: usize = MOST_PIECES + 1;

/// A range of bytes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub last: u64,
}

impl LockRange {
    /// All that a lock can reach.
    pub const WHOLE: Self = Self { start: 0, last: LAST_BYTE };

    /// Its bytes as fcntl(2) has them: 0 of what has no end.
    #[must_use]
    pub fn length(self) -> u64 {
        if self.last == LAST_BYTE { 0 } else { self.last - self.start + 1 }
    }

    /// Whether it is one.
    pub(crate) fn is_valid(self) -> bool {
        self.start <= self.last && self.last <= LAST_BYTE
    }

    /// Whether they have a byte in common.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// What they have in common, if they meet.
    pub(crate) fn common(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), last: self.last.min(other.last) }
    }
}

/// A range with what may be granted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub range: LockRange,
    pub mode: LockMode,
}

/// There are more pieces than a place can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The pieces of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pieces(ArrayVec<Piece, MOST_PIECES>);

impl Pieces {
    /// As they were read from a pool, in any order. What meets another is dropped: a peer has
    /// written it.
    pub fn of(read: impl Iterator<Item = Piece>) -> Self {
        let mut pieces = Self::default();
        for piece in read {
            let meets = pieces.0.iter().any(|other| other.range.meets(piece.range));
            if piece.range.is_valid() && !meets {
                let _ = pieces.0.try_push(piece);
            }
        }
        pieces.0.sort_unstable_by_key(|piece| piece.range.start);
        pieces
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.0.iter()
    }

    /// Whether a lock of this mode may be granted in the whole range.
    #[cfg(test)]
    pub fn cover(&self, range: LockRange, mode: LockMode) -> bool {
        let mut next = range.start;
        for piece in &self.0 {
            if piece.range.last < next {
                continue;
            }
            if piece.range.start > next || piece.mode < mode {
                return false;
            }
            if piece.range.last >= range.last {
                return true;
            }
            next = piece.range.last + 1;
        }
        false
    }

    /// The parts of a range where a lock of this mode may not be granted.
    pub fn gaps(&self, range: LockRange, mode: LockMode) -> ArrayVec<LockRange, MOST_GAPS> {
        let mut gaps = ArrayVec::new();
        let mut next = range.start;
        let enough = self.0.iter().filter(|piece| piece.mode >= mode && piece.range.meets(range));
        for piece in enough {
            if piece.range.start > next {
                gaps.push(LockRange { start: next, last: piece.range.start - 1 });
            }
            next = piece.range.last + 1;
        }
        if next <= range.last {
            gaps.push(LockRange { start: next, last: range.last });
        }
        gaps
    }

    /// At least this mode may be granted in the range.
    pub fn raise(&mut self, range: LockRange, mode: LockMode) -> Result<(), TooMany> {
        self.change(range, |before| Some(before.map_or(mode, |before| before.max(mode))))
    }

    /// At most this mode may be granted in the range, or nothing.
    pub fn lower(&mut self, range: LockRange, mode: Option<LockMode>) -> Result<(), TooMany> {
        self.change(range, |before| before.and_then(|before| mode.map(|mode| before.min(mode))))
    }

    fn change(
        &mut self,
        range: LockRange,
        after: impl Fn(Option<LockMode>) -> Option<LockMode>,
    ) -> Result<(), TooMany> {
        let mut changed = Self::default();
        // The first byte of the range that is not dealt with; behind the last one at the end.
        let mut next = range.start;
        for piece in &self.0 {
            let Piece { range: old, mode } = *piece;
            if next <= range.last && old.start > next {
                let last = range.last.min(old.start - 1);
                changed.push(next, last, after(None))?;
                next = last + 1;
            }
            if old.start < range.start {
                changed.push(old.start, old.last.min(range.start - 1), Some(mode))?;
            }
            if old.meets(range) {
                let common = old.common(range);
                changed.push(common.start, common.last, after(Some(mode)))?;
                next = common.last + 1;
            }
            if old.last > range.last {
                changed.push(old.start.max(range.last + 1), old.last, Some(mode))?;
            }
        }
        if next <= range.last {
            // In front of pieces behind the range there is none of these: it was dealt with.
            changed.push(next, range.last, after(None))?;
        }
        *self = changed;
        Ok(())
    }

    /// Adds at the end; a piece that goes on there becomes longer.
    fn push(&mut self, start: u64, last: u64, mode: Option<LockMode>) -> Result<(), TooMany> {
        let Some(mode) = mode else { return Ok(()) };
        if let Some(end) = self.0.last_mut()
            && end.mode == mode
            && end.range.last + 1 == start
        {
            end.range.last = last;
            return Ok(());
        }
        self.0.try_push(Piece { range: LockRange { start, last }, mode }).map_err(|_| TooMany)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{Exclusive, Shared};

    const BYTES: u64 = 40;

    /// The same, byte by byte.
    struct Model([Option<LockMode>; BYTES as usize]);

    impl Model {
        fn agrees(&self, pieces: &Pieces) -> bool {
            let of = |byte| {
                let has = |piece: &&Piece| piece.range.meets(LockRange { start: byte, last: byte });
                pieces.iter().find(has).map(|piece| piece.mode)
            };
            let normal = pieces.0.windows(2).all(|two| {
                two[0].range.last < two[1].range.start
                    && (two[0].mode != two[1].mode || two[0].range.last + 1 < two[1].range.start)
            });
            normal && (0..BYTES).all(|byte| of(byte) == self.0[byte as usize])
        }
    }

    #[test]
    fn pieces_are_split_and_merged_as_bytes_are() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let (mut model, mut pieces) = (Model([None; BYTES as usize]), Pieces::default());
        for _ in 0..100_000 {
            let (a, b) = (random(BYTES), random(BYTES));
            let range = LockRange { start: a.min(b), last: a.max(b) };
            let mode = if random(2) == 0 { Shared } else { Exclusive };
            let bytes = range.start as usize..=range.last as usize;
            let before = pieces.clone();
            let changed = if random(2) == 0 {
                pieces.raise(range, mode)
            } else {
                pieces.lower(range, Some(mode).filter(|_| random(3) == 0))
            };
            if changed.is_err() {
                assert_eq!(before, pieces);
                continue;
            }
            let raised = pieces.cover(range, mode);
            for byte in bytes.clone() {
                let piece = pieces.iter().find(|piece| {
                    piece.range.meets(LockRange { start: byte as u64, last: byte as u64 })
                });
                model.0[byte] = piece.map(|piece| piece.mode);
            }
            assert!(model.agrees(&pieces), "{pieces:?}");
            let covered = model.0[bytes].iter().all(|had| had.is_some_and(|had| had >= mode));
            assert_eq!(raised, covered);
            assert_eq!(pieces.gaps(range, mode).is_empty(), covered);
        }
    }

    #[test]
    fn raising_and_lowering_change_what_they_name() {
        let mut pieces = Pieces::default();
        pieces.raise(LockRange::WHOLE, Exclusive).unwrap();
        pieces.lower(LockRange { start: 5, last: 9 }, None).unwrap();
        pieces.lower(LockRange { start: 20, last: 29 }, Some(Shared)).unwrap();
        assert_eq!(pieces.0.len(), 4);
        assert!(pieces.cover(LockRange { start: 10, last: 40 }, Shared));
        assert!(!pieces.cover(LockRange { start: 10, last: 40 }, Exclusive));
        assert!(!pieces.cover(LockRange { start: 4, last: 5 }, Shared));
        pieces.raise(LockRange { start: 0, last: 30 }, Exclusive).unwrap();
        assert_eq!(pieces.0.as_slice(), [Piece { range: LockRange::WHOLE, mode: Exclusive }]);
    }
}
