//! Memory that is mapped in whole units only: huge pages, and dax devices with a large alignment.
//!
//! The kernel maps and unmaps whole units and nothing else. The units around a range are mapped,
//! and the range inside is what the caller gets. Then a range can only lie at addresses that are
//! the same as its offset modulo a unit, as segments of huge pages do on Linux.

use std::ops::Range;
use std::ptr::NonNull;

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file_free};

use crate::device::Device;

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
    fn whole(self, offset: u64, bytes: usize) -> Result<(Range<u64>, usize), Errno> {
        let whole = self.around(offset, bytes as u64).ok_or(Errno::INVAL)?;
        let length = usize::try_from(whole.end - whole.start).map_err(|_| Errno::NOMEM)?;
        Ok((whole, length))
    }

    /// Maps a range of a device anywhere.
    pub fn map(
        self,
        device: &Device,
        offset: u64,
        bytes: usize,
        protection: Protection,
    ) -> Result<Mapping, Errno> {
        let (whole, length) = self.whole(offset, bytes)?;
        let mapping = device.map(whole.start, length, protection)?;
        let is_part = length != bytes;
        Ok(if is_part { mapping.narrowed((offset - whole.start) as usize, bytes) } else { mapping })
    }

    /// Maps a range of a device at an address.
    ///
    /// # Safety
    /// Nothing that is still in use may lie in the range at `at`.
    pub unsafe fn map_at(
        self,
        device: &Device,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        let (whole, length) = self.whole(offset, bytes)?;
        if length == bytes && (at.addr().get() as u64).is_multiple_of(self.0) {
            // SAFETY: by this function's own contract.
            return unsafe { device.map_at(offset, bytes, protection, at) };
        }
        let before = (offset - whole.start) as usize;
        let start = at.addr().get().checked_sub(before).ok_or(Errno::INVAL)?;
        if !(start as u64).is_multiple_of(self.0) {
            return Err(Errno::INVAL);
        }
        // What lies in the range itself may be replaced, by the caller's contract; what lies around
        // it may not, so all of it has to be free.
        // SAFETY: by this function's own contract for the range at `at`, which is given up here.
        unsafe { vshmem_mem::unmap(at, bytes) }?;
        let mapping =
            device.with(|file| map_file_free(file, whole.start, length, protection, start))?;
        Ok(mapping.narrowed(before, bytes))
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
