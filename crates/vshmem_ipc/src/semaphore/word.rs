//! The word of one semaphore: value, last operator, version, and whether the fast way is closed.

/// The word of one semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub value: u32,
    pub slow: bool,
    pub party: u32,
    pub(super) version: u32,
}

impl Word {
    const VERSION_BITS: u32 = 19;

    #[inline]
    pub fn unpack(word: u64) -> Self {
        Self {
            value: (word & 0x7fff) as u32,
            slow: word & 0x8000 != 0,
            party: (word >> 16 & 0x1fff_ffff) as u32,
            version: (word >> 45) as u32,
        }
    }

    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.value & 0x7fff)
            | u64::from(self.slow) << 15
            | u64::from(self.party & 0x1fff_ffff) << 16
            | u64::from(self.version & ((1 << Self::VERSION_BITS) - 1)) << 45
    }

    #[inline]
    pub(super) fn with(self, value: u32, party: u32, slow: bool) -> Self {
        Self { value, party, slow, version: self.version.wrapping_add(1) }
    }
}
