//! Memory that is mapped in whole units only: pages, huge pages, and dax devices with a large
//! alignment.

use std::ops::Range;

use rustix::io::Errno;

/// Bytes of the pages that are usual.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bytes of a unit: a power of two, of a page at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granularity(pub u64);

impl Granularity {
    /// The units that a range lies in.
    fn around(self, offset: u64, bytes: u64) -> Option<Range<u64>> {
        let end = offset.checked_add(bytes)?.checked_next_multiple_of(self.0)?;
        Some(offset - offset % self.0..end)
    }

    /// The units that a range lies in, and their length.
    pub fn whole(self, offset: u64, bytes: usize) -> Result<(Range<u64>, usize), Errno> {
        let whole = self.around(offset, bytes as u64).ok_or(Errno::INVAL)?;
        let length = usize::try_from(whole.end - whole.start).map_err(|_| Errno::NOMEM)?;
        Ok((whole, length))
    }

    /// The addresses that a mapping of a range took.
    pub fn footprint(self, start: usize, bytes: usize) -> Range<usize> {
        match self.around(start as u64, bytes as u64) {
            Some(whole) => whole.start as usize..whole.end as usize,
            None => start..start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_around_a_range_are_whole() {
        const M: u64 = 1 << 20;
        let large = Granularity(2 * M);
        assert_eq!(large.around(0, 4096), Some(0..2 * M));
        assert_eq!(large.around(2 * M - 4096, 8192), Some(0..4 * M));
        assert_eq!(large.around(2 * M, 2 * M), Some(2 * M..4 * M));
        assert_eq!(Granularity(4096).around(4096, 4096), Some(4096..8192));
        assert_eq!(large.around(u64::MAX - 4095, 4096), None);
    }
}
