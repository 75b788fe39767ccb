//! Making and unmaking mappings.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// What a mapping may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protection {
    /// Stores are allowed.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores.
    pub const READ_WRITE: Self = Self { write: true, execute: false };

    fn flags(self) -> ProtFlags {
        let mut flags = ProtFlags::READ;
        flags.set(ProtFlags::WRITE, self.write);
        flags.set(ProtFlags::EXEC, self.execute);
        flags
    }
}

/// A mapping that is unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is a range of addresses; it belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; it offers no access by itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// First byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the memory mapped for good and returns where it is.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Keeps only the first `bytes` bytes: the rest is somebody else's by now.
    pub fn forget_from(mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Zeroed private memory.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn anonymous(bytes: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        Self::adopt(start.cast(), bytes)
    }

    fn adopt(start: *mut u8, bytes: usize) -> Result<Self, Errno> {
        NonNull::new(start).map(|start| Self { start, bytes }).ok_or(Errno::NOMEM)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of the range, and views of it cannot outlive it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Maps a part of a file, shared. With `at`, exactly there, replacing what is mapped.
///
/// # Errors
/// What mmap(2) says.
///
/// # Safety
/// With `at`, nothing that is still in use may lie in the range.
pub unsafe fn map_file(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: Protection,
    at: Option<NonNull<u8>>,
) -> Result<Mapping, Errno> {
    /// Mappings of these sizes get all their page table entries at once: the pages of a pool are
    /// there already, and a fault for each costs more than the rest of the call. For fewer pages
    /// it does not pay, for more it would delay a program that touches few.
    const POPULATED: std::ops::RangeInclusive<usize> = (32 << 10)..=(4 << 20);
    let mut flags = MapFlags::SHARED;
    flags.set(MapFlags::FIXED, at.is_some());
    flags.set(MapFlags::POPULATE, POPULATED.contains(&bytes));
    let hint = at.map_or(std::ptr::null_mut(), |start| start.as_ptr().cast());
    // SAFETY: without `at` the kernel chooses a free range; with it the caller vouches for it.
    let start = unsafe { rustix::mm::mmap(hint, bytes, protection.flags(), flags, file, offset) }?;
    Mapping::adopt(start.cast(), bytes)
}

/// Moves `bytes` from `offset` of `whole` into a mapping of their own. What was at the old place
/// is no longer mapped. With `at`, exactly there, replacing what is mapped.
///
/// # Errors
/// What mremap(2) says.
///
/// # Safety
/// `whole` must not be accessed in that range afterwards; with `at`, nothing that is still in use
/// may lie there.
pub unsafe fn remap_part(
    whole: &Mapping,
    offset: usize,
    bytes: usize,
    protection: Protection,
    at: Option<NonNull<u8>>,
) -> Result<Mapping, Errno> {
    if offset.checked_add(bytes).is_none_or(|end| end > whole.bytes()) {
        return Err(Errno::INVAL);
    }
    let target = match at {
        Some(start) => start.as_ptr().cast(),
        None => Mapping::anonymous(bytes)?.leak().as_ptr().cast(),
    };
    // SAFETY: the source range lies inside `whole`; the target is either a range that was just
    // reserved or one that the caller vouches for.
    let moved = unsafe {
        let from = whole.start().as_ptr().add(offset).cast();
        let flags = MremapFlags::MAYMOVE;
        rustix::mm::mremap_fixed(from, bytes, bytes, flags, target)?
    };
    let part = Mapping::adopt(moved.cast(), bytes)?;
    // SAFETY: the range is the new mapping's own.
    unsafe {
        rustix::mm::mprotect(
            part.start().as_ptr().cast(),
            bytes,
            rustix::mm::MprotectFlags::from_bits_retain(protection.flags().bits()),
        )
    }?;
    Ok(part)
}

/// Unmaps a range.
///
/// # Errors
/// What munmap(2) says.
///
/// # Safety
/// Nothing in the range may be in use.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: by this function's own contract.
    unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) }
}
