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
    /// Bytes that were mapped in front of it and behind it, and that go with it.
    around: (usize, usize),
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

    /// One mapping of what was mapped in parts.
    ///
    /// # Safety
    /// The whole range is mapped, and no other code unmaps or remaps a part of it.
    #[must_use]
    pub unsafe fn joined(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, around: (0, 0) }
    }

    /// Keeps only the first `bytes` bytes. Dropping it does not unmap the rest, which other code
    /// has taken over.
    pub fn forget_from(mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Only a part of it is meant: the rest is there because the device maps whole pieces, and goes
    /// with the part.
    #[must_use]
    pub fn narrowed(self, before: usize, bytes: usize) -> Self {
        let behind = self.bytes.checked_sub(before).and_then(|rest| rest.checked_sub(bytes));
        let Some(behind) = behind else { return self };
        let around = (self.around.0 + before, self.around.1 + behind);
        // SAFETY: `before` is at most the length of the mapping, as was just seen.
        let start = unsafe { NonNull::new_unchecked(self.start.as_ptr().add(before)) };
        std::mem::forget(self);
        Self { start, bytes, around }
    }

    /// Zeroed private memory.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn anonymous(bytes: usize) -> Result<Self, Errno> {
        let mut flags = MapFlags::PRIVATE;
        // Miri knows no more than that.
        flags.set(MapFlags::NORESERVE, !cfg!(miri));
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other mapping.
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

    pub(crate) fn adopt(start: *mut u8, bytes: usize) -> Result<Self, Errno> {
        NonNull::new(start).map(|start| Self { start, bytes, around: (0, 0) }).ok_or(Errno::NOMEM)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (before, behind) = self.around;
        let start = self.start.as_ptr().wrapping_sub(before);
        // SAFETY: this value is the only owner of the range and of what is around it, and views of
        // it cannot outlive it.
        let _ = unsafe { rustix::mm::munmap(start.cast(), before + self.bytes + behind) };
    }
}

/// Maps a part of a file, shared, anywhere.
///
/// # Errors
/// What mmap(2) says.
pub fn map_file(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: Protection,
) -> Result<Mapping, Errno> {
    map_file_near(file, offset, bytes, protection, 0)
}

/// The same at an address if that is free, else anywhere.
///
/// # Errors
/// What mmap(2) says.
pub fn map_file_near(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: Protection,
    at: usize,
) -> Result<Mapping, Errno> {
    let flags = MapFlags::SHARED | populated(bytes);
    let hint = std::ptr::without_provenance_mut(at);
    // SAFETY: the kernel chooses a free range: an address is a wish.
    let start = unsafe { rustix::mm::mmap(hint, bytes, protection.flags(), flags, file, offset) }?;
    Mapping::adopt(start.cast(), bytes)
}

/// Maps a part of a file, shared, at an address, replacing what is mapped there.
///
/// # Errors
/// What mmap(2) says.
///
/// # Safety
/// Nothing that is still in use may lie in the range.
pub unsafe fn map_file_at(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: Protection,
    at: NonNull<u8>,
) -> Result<Mapping, Errno> {
    let flags = MapFlags::SHARED | MapFlags::FIXED | populated(bytes);
    let hint = at.as_ptr().cast();
    // SAFETY: by this function's own contract.
    let start = unsafe { rustix::mm::mmap(hint, bytes, protection.flags(), flags, file, offset) }?;
    Mapping::adopt(start.cast(), bytes)
}

/// Mappings of some sizes get all their page table entries at once: the pages of a pool are
/// there already, and a fault for each costs more than the rest of the call. For fewer pages
/// it does not pay, for more it would delay a program that touches few.
fn populated(bytes: usize) -> MapFlags {
    const POPULATED: std::ops::RangeInclusive<usize> = (32 << 10)..=(4 << 20);
    if POPULATED.contains(&bytes) { MapFlags::POPULATE } else { MapFlags::empty() }
}

/// Maps a part of a file, shared, at an address where nothing is mapped.
///
/// # Errors
/// EEXIST when something is; else what mmap(2) says.
pub fn map_file_free(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: Protection,
    at: usize,
) -> Result<Mapping, Errno> {
    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
    let hint = std::ptr::without_provenance_mut(at);
    // SAFETY: nothing is replaced.
    let start = unsafe { rustix::mm::mmap(hint, bytes, protection.flags(), flags, file, offset) }?;
    let mapping = Mapping::adopt(start.cast(), bytes)?;
    // A kernel before 4.17 takes the address for a hint.
    if start.addr() == at { Ok(mapping) } else { Err(Errno::EXIST) }
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
    // reserved, or one that the caller may replace.
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

/// Moves a mapping, page table entries and all: to `hint` if that is free, else to where the kernel
/// likes. Nothing is mapped at its old place any more.
///
/// # Errors
/// What mremap(2) says: EINVAL for the memory of a device. Then it lies where it was.
///
/// # Safety
/// Nothing in the range may be in use.
pub unsafe fn relocate(
    start: NonNull<u8>,
    bytes: usize,
    hint: Option<usize>,
) -> Result<NonNull<u8>, Errno> {
    // One step that chooses a place and moves there does not exist. What this leaves behind has no
    // page table entries, and is unmapped for little.
    let moved = match hint.map(|place| move_entries(start, bytes, place)) {
        // Not a place at all: beyond the address space, or where the mapping lies.
        None | Some(Err(Errno::INVAL)) => move_entries(start, bytes, 0),
        Some(other) => other,
    }?;
    // SAFETY: what was in use there has moved.
    unsafe { unmap(start, bytes) }?;
    Ok(moved)
}

/// mremap(2) with MREMAP_DONTUNMAP to an address of the kernel's choice. It takes the fifth
/// argument for a wish, as mmap(2) does its first, and zero for none.
fn move_entries(start: NonNull<u8>, bytes: usize, hint: usize) -> Result<NonNull<u8>, Errno> {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP) as usize;
    let result: isize;
    // SAFETY: the source stays mapped and the target is free; the kernel keeps all registers but
    // those that are named.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") 25usize => result,
            in("rdi") start.as_ptr(), in("rsi") bytes, in("rdx") bytes, in("r10") flags,
            in("r8") hint, lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") 216usize,
            inlateout("x0") start.as_ptr() as usize => result,
            in("x1") bytes, in("x2") bytes, in("x3") flags, in("x4") hint,
            options(nostack),
        );
    }
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    NonNull::new(result as *mut u8).ok_or(Errno::NOMEM)
}

/// Changes what a mapping may be used for; `None`: nothing, a touch is SIGSEGV.
///
/// # Errors
/// What mprotect(2) says.
///
/// # Safety
/// Nothing in the range may be in use.
pub unsafe fn protect(
    start: NonNull<u8>,
    bytes: usize,
    protection: Option<Protection>,
) -> Result<(), Errno> {
    let bits = protection.map_or(0, |protection| protection.flags().bits());
    let flags = rustix::mm::MprotectFlags::from_bits_retain(bits);
    // SAFETY: by this function's own contract.
    unsafe { rustix::mm::mprotect(start.as_ptr().cast(), bytes, flags) }
}

/// Takes a range of addresses where nothing is mapped, so that nothing else will be.
///
/// # Errors
/// EEXIST when something is.
pub fn reserve(start: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: nothing is replaced.
    let got = unsafe {
        rustix::mm::mmap_anonymous(start.as_ptr().cast(), bytes, ProtFlags::empty(), flags)
    }?;
    // A kernel before 4.17 takes the address for a hint.
    if got.addr() == start.as_ptr().addr() { Ok(()) } else { Err(Errno::EXIST) }
}

/// Unmaps a range. Where that is refused (a filter of seccomp(2)) its addresses stay taken, and
/// what lay there is out of reach all the same.
///
/// # Errors
/// What munmap(2) says, if neither is possible.
///
/// # Safety
/// Nothing in the range may be in use.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: by this function's own contract.
    unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) }.or_else(|refused| {
        let (flags, none) =
            (MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE, ProtFlags::empty());
        // SAFETY: as above; nothing but the range is replaced.
        unsafe { rustix::mm::mmap_anonymous(start.as_ptr().cast(), bytes, none, flags) }
            .map(drop)
            .map_err(|_| refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relocated_mapping_holds_what_it_held_and_leaves_nothing() {
        let file = rustix::fs::memfd_create("pages", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let bytes = 16 * 4096;
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        let file = std::os::fd::AsFd::as_fd(&file);
        // SAFETY: no address is given.
        let mapping = map_file(file, 0, bytes, Protection::READ_WRITE).unwrap();
        let mut start = mapping.leak();
        // SAFETY: the mapping is this test's, which uses no place of it after it has moved.
        unsafe {
            start.as_ptr().add(5).write(7);
            for turn in 0..20 {
                let hint =
                    [None, Some(start.addr().get() ^ bytes), Some(usize::MAX - 4095)][turn % 3];
                let next = relocate(start, bytes, hint).unwrap();
                assert_eq!(next.as_ptr().add(5).read(), 7);
                assert_ne!(next, start);
                // ENOMEM: nothing is mapped there.
                assert_eq!(protect(start, bytes, None), Err(Errno::NOMEM));
                start = next;
            }
            unmap(start, bytes).unwrap();
        }
    }
}
