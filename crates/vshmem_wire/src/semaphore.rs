//! The word of one semaphore, and the word of one client's adjustment of it (semadj). Each is the word of a cell; the cell's
//! tag tells how often it was written.

/// The word of one semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SemWord {
    /// The semaphore's value, up to 32767.
    pub value: u32,
    /// The fast way is closed: take the set's lock.
    pub slow: bool,
    /// The last operation was one with SEM_UNDO: `operator` is the undo record of who did it, and
    /// the adjustment there may still be pledged.
    pub undo: bool,
    /// Last operator as a `Party`; with `undo`, an undo record.
    pub operator: u32,
}

impl SemWord {
    const OPERATOR_BITS: u32 = 29;

    /// Takes a word apart. The bits that it does not use are ignored.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            value: (word & 0x7fff) as u32,
            slow: word & (1 << 15) != 0,
            undo: word & (1 << 16) != 0,
            operator: (word >> 17) as u32 & ((1 << Self::OPERATOR_BITS) - 1),
        }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.value & 0x7fff) as u64
            | (self.slow as u64) << 15
            | (self.undo as u64) << 16
            | ((self.operator & ((1 << Self::OPERATOR_BITS) - 1)) as u64) << 17
    }

    /// The word after an operation of `party` that leaves `value`.
    #[inline]
    #[must_use]
    pub const fn of(value: u32, party: u32, slow: bool) -> Self {
        Self { value, slow, undo: false, operator: party }
    }

    /// The word after an operation with SEM_UNDO of the owner of an undo record.
    #[inline]
    #[must_use]
    pub const fn of_undoable(value: u32, record: u32) -> Self {
        Self { value, slow: false, undo: true, operator: record }
    }
}

/// What is to be added to a semaphore when a client ends.
///
/// A *pledge* is an adjustment for an operation that is about to be done on the semaphore's word:
/// it counts once the semaphore shows it, by its UNDO flag, this record, and the tag that `mark` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adjustment {
    /// What is to be added, from -32768 to 32767, without the pledge.
    pub total: i16,
    /// What the pledge adds to it.
    pub pledge: i16,
    /// [`Adjustment::mark_of`] the tag that the semaphore has after the operation that the pledge is for.
    pub mark: u32,
    /// There is a pledge.
    pub pledged: bool,
    /// The fast way is closed: take the set's lock.
    pub closed: bool,
}

impl Adjustment {
    const MARK_BITS: u32 = 30;
    const MARKS: u32 = (1 << Self::MARK_BITS) - 1;

    /// What a pledge names the operation by that leaves a semaphore with `tag`: its low bits. Why they are enough is
    /// told in `vshmem_sync`'s `pledge.rs`.
    #[inline]
    #[must_use]
    pub const fn mark_of(tag: u64) -> u32 {
        tag as u32 & Self::MARKS
    }

    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            total: word as i16,
            pledge: (word >> 16) as i16,
            mark: (word >> 32) as u32 & Self::MARKS,
            pledged: word & (1 << 62) != 0,
            closed: word & (1 << 63) != 0,
        }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.total as u16 as u64
            | (self.pledge as u16 as u64) << 16
            | ((self.mark & Self::MARKS) as u64) << 32
            | (self.pledged as u64) << 62
            | (self.closed as u64) << 63
    }

    /// Without a pledge.
    #[inline]
    #[must_use]
    pub const fn of(total: i16, closed: bool) -> Self {
        Self { total, pledge: 0, mark: 0, pledged: false, closed }
    }

    /// With a pledge for the operation that leaves the semaphore with `tag`.
    #[inline]
    #[must_use]
    pub const fn pledging(total: i16, pledge: i16, tag: u64) -> Self {
        Self { total, pledge, mark: Self::mark_of(tag), pledged: true, closed: false }
    }

    /// What is to be added if the pledge counts. What a peer wrote may leave the range.
    #[inline]
    #[must_use]
    pub const fn kept(self) -> i16 {
        self.total.saturating_add(self.pledge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_went_in() {
        for word in [0, u64::MAX, 0x8000, 0x1_0000, 0x0123_4567_89ab_cdef] {
            assert_eq!(SemWord::unpack(word).pack(), word & ((1 << 46) - 1));
            assert_eq!(Adjustment::unpack(word).pack(), word);
        }
        let adjustment = Adjustment::pledging(-32768, 32767, u64::MAX - 9);
        assert_eq!(Adjustment::unpack(adjustment.pack()), adjustment);
        assert_eq!(adjustment.mark, Adjustment::mark_of(u64::MAX - 9));
    }
}
