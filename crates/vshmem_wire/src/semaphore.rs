//! The word of one semaphore, and the word of one client's adjustment of it (semadj).

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
    /// How often the word was written, modulo 2^18.
    pub version: u32,
}

impl SemWord {
    const OPERATOR_BITS: u32 = 29;
    const VERSION_BITS: u32 = 18;

    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            value: (word & 0x7fff) as u32,
            slow: word & (1 << 15) != 0,
            undo: word & (1 << 16) != 0,
            operator: (word >> 17) as u32 & ((1 << Self::OPERATOR_BITS) - 1),
            version: (word >> 46) as u32,
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
            | ((self.version & ((1 << Self::VERSION_BITS) - 1)) as u64) << 46
    }

    /// The word that follows, after an operation of `party` that leaves `value`.
    #[inline]
    #[must_use]
    pub const fn after(self, value: u32, party: u32, slow: bool) -> Self {
        Self { value, slow, undo: false, operator: party, version: self.version.wrapping_add(1) }
    }

    /// The word that follows, after an operation with SEM_UNDO of the owner of an undo record.
    #[inline]
    #[must_use]
    pub const fn after_undoable(self, value: u32, record: u32) -> Self {
        let version = self.version.wrapping_add(1);
        Self { value, slow: false, undo: true, operator: record, version }
    }

    /// What a pledge for the operation that leads to this word names it by.
    #[inline]
    #[must_use]
    pub const fn mark(self) -> u8 {
        self.version as u8
    }
}

/// What is to be added to a semaphore when a client ends.
///
/// A *pledge* is an adjustment for an operation that is about to be done on the semaphore's word:
/// it counts once the word shows it, by its UNDO flag, this record, and `mark`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adjustment {
    /// What is to be added, from -32768 to 32767, without the pledge.
    pub total: i16,
    /// What the pledge adds to it.
    pub pledge: i16,
    /// [`SemWord::mark`] of the word that the pledge is for.
    pub mark: u8,
    /// There is a pledge.
    pub pledged: bool,
    /// The fast way is closed: take the set's lock.
    pub closed: bool,
    /// How often the word was written, modulo 2^22.
    pub version: u32,
}

impl Adjustment {
    const VERSION_BITS: u32 = 22;

    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            total: word as i16,
            pledge: (word >> 16) as i16,
            mark: (word >> 32) as u8,
            pledged: word & (1 << 40) != 0,
            closed: word & (1 << 41) != 0,
            version: (word >> 42) as u32,
        }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.total as u16 as u64
            | (self.pledge as u16 as u64) << 16
            | (self.mark as u64) << 32
            | (self.pledged as u64) << 40
            | (self.closed as u64) << 41
            | ((self.version & ((1 << Self::VERSION_BITS) - 1)) as u64) << 42
    }

    /// The word that follows, without a pledge.
    #[inline]
    #[must_use]
    pub const fn after(self, total: i16, closed: bool) -> Self {
        let version = self.version.wrapping_add(1);
        Self { total, pledge: 0, mark: 0, pledged: false, closed, version }
    }

    /// The word that follows, with a pledge for the operation that leads to the word `mark`.
    #[inline]
    #[must_use]
    pub const fn after_pledging(self, total: i16, pledge: i16, mark: u8) -> Self {
        let version = self.version.wrapping_add(1);
        Self { total, pledge, mark, pledged: true, closed: false, version }
    }

    /// What is to be added if the pledge counts. What a peer wrote may leave the range.
    #[inline]
    #[must_use]
    pub const fn kept(self) -> i16 {
        self.total.saturating_add(self.pledge)
    }

    /// The first word in memory that was something else before: `seed` differs from its last use.
    #[must_use]
    pub const fn fresh(seed: u32) -> Self {
        Self { total: 0, pledge: 0, mark: 0, pledged: false, closed: false, version: seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_went_in() {
        for word in [0, u64::MAX, 0x8000, 0x1_0000, 0x0123_4567_89ab_cdef] {
            assert_eq!(SemWord::unpack(word).pack(), word);
            assert_eq!(Adjustment::unpack(word).pack(), word);
        }
        let adjustment = Adjustment::fresh(7).after_pledging(-32768, 32767, 9);
        assert_eq!(Adjustment::unpack(adjustment.pack()), adjustment);
    }

    #[test]
    fn versions_wrap() {
        let last = SemWord { version: (1 << 18) - 1, ..SemWord::default() };
        assert_eq!(SemWord::unpack(last.after(1, 2, false).pack()).version, 0);
        let last = Adjustment::fresh((1 << 22) - 1);
        assert_eq!(Adjustment::unpack(last.after(0, false).pack()).version, 0);
    }
}
