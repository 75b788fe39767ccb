//! What a call of mremap(2) asks for.

use std::ptr::NonNull;

use libc::c_int;
use vshmem_ipc::Errno;

use crate::attached::addresses::{PAGE, no_access};
use crate::attached::pieces;

/// What mremap(2) is asked for; lengths are whole pages.
#[derive(Debug, Clone, Copy)]
pub struct RemapRequest {
    /// The old range begins here.
    pub start: usize,
    /// Its length; 0 asks for a second mapping of the same memory.
    pub bytes: usize,
    /// The new length.
    pub new_bytes: usize,
    /// MREMAP_ bits.
    pub flags: c_int,
    /// The new place, if the flags say so.
    pub target: usize,
}

impl RemapRequest {
    /// Whether it has a flag.
    pub fn has(self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// Whether the old range stays mapped.
    pub fn copies(self) -> bool {
        self.bytes == 0 || self.has(libc::MREMAP_DONTUNMAP)
    }

    /// Whether more is to be mapped than was.
    pub fn grows(self) -> bool {
        self.new_bytes > self.bytes
    }

    /// Whether it would move a segment together with something else. Linux before 6.17 moves one
    /// mapping at a time, and newer ones do not move several if a segment of their own is among
    /// them, but would if the pool's file is.
    pub fn moves_several(self) -> bool {
        let end = self.start.saturating_add(self.bytes);
        self.has(libc::MREMAP_FIXED)
            && self.bytes == self.new_bytes
            && self.check().is_ok()
            && pieces::find(|piece| piece.touches(self.start, end)).is_some()
            && pieces::find(|piece| piece.holds(self.start, self.bytes)).is_none()
    }

    /// Whether the new place that the program has chosen overlaps the old range.
    pub fn overlaps(self) -> bool {
        self.has(libc::MREMAP_FIXED)
            && self.target < self.start.saturating_add(self.bytes)
            && self.start < self.target.saturating_add(self.new_bytes)
    }

    /// Whether it asks for whole units alone, where the device maps larger ones than a page.
    pub fn is_in_units_of(self, unit: usize) -> bool {
        let target = if self.has(libc::MREMAP_FIXED) { self.target } else { 0 };
        let whole = |word: usize| word.is_multiple_of(unit);
        unit <= PAGE || [self.start, self.bytes, self.new_bytes, target].into_iter().all(whole)
    }

    /// What the kernel refuses without a look at any mapping.
    pub fn check(self) -> Result<(), Errno> {
        let (may_move, fixed) = (self.has(libc::MREMAP_MAYMOVE), self.has(libc::MREMAP_FIXED));
        let known = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let refused = self.flags & !known != 0
            || self.new_bytes == 0
            || !self.start.is_multiple_of(PAGE)
            || (fixed && (!may_move || !self.target.is_multiple_of(PAGE) || self.overlaps()))
            || (self.bytes == 0 && !may_move);
        if refused { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// Takes the addresses of the new range, without any access: in place of what lies there where
    /// the program has asked for it, and else anywhere.
    pub fn reserve(self) -> Result<usize, Errno> {
        let fixed = self.has(libc::MREMAP_FIXED);
        let at = if fixed { self.target } else { 0 };
        no_access(at, self.new_bytes, if fixed { libc::MAP_FIXED } else { 0 })
    }

    /// For mappings that can only be replaced: reserves the new range and says where it is, or that
    /// the old one was made longer in place.
    pub fn reserve_or_extend(self) -> Result<usize, Errno> {
        self.check()?;
        let behind = NonNull::new((self.start + self.bytes) as *mut u8).ok_or(Errno::INVAL)?;
        if !self.has(libc::MREMAP_FIXED) && self.bytes != 0 && self.grows() {
            match vshmem_mem::reserve(behind, self.new_bytes - self.bytes) {
                Ok(()) => return Ok(self.start),
                Err(_) if !self.has(libc::MREMAP_MAYMOVE) => return Err(Errno::NOMEM),
                Err(_) => {}
            }
        }
        self.reserve()
    }
}
