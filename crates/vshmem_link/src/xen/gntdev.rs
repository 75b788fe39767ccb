//! Mapping grants: `/dev/xen/gntdev`, as Linux's xen/gntdev.h has it.
//!
//! On a PV kernel an open device belongs to the address space that opened it, and a child that fork
//! has made can map nothing through it. So the device is opened anew in each process. Nothing here
//! uses the heap once the device is open.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;

use rustix::io::Errno;
use vshmem_mem::{ForkMark, Map, Mapping, Protection, map_file, map_file_at};

use super::ioctl::pass;
use crate::device::Device;
use crate::region::RegionError;

/// The device.
pub const DEVICE: &str = "/dev/xen/gntdev";
/// Pages that it takes in one request at most (its parameter `limit`).
pub const MOST_PAGES: u32 = 65_536;
/// Advice to a user who may not use the device.
const ASK_FOR_ACCESS: &str = "The administrator of this machine decides who may map grants: with a udev rule (KERNEL==\"xen/gntdev\", GROUP=\"vshmem\", MODE=\"0660\"), or with chmod and chgrp on it";
const PAGE: u64 = 4096;
/// Bytes of a request in front of its references.
const HEAD: u64 = 16;

/// Grants of one domain, one for each page in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grants {
    /// The domain whose pages they are.
    pub domid: u16,
    /// The first reference.
    pub first: u32,
    /// Pages.
    pub pages: u32,
}

/// The open device.
#[derive(Debug)]
pub struct Gntdev {
    device: Device,
    /// Of the address space that has opened it.
    opener: ForkMark,
}

/// The words of a request, in the order in which they lie there.
fn head(pages: u32) -> u64 {
    word(pages, 0)
}

fn reference(domid: u16, reference: u32) -> u64 {
    word(u32::from(domid), reference)
}

/// Two halves, the first one in front.
fn word(first: u32, second: u32) -> u64 {
    let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([
        first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3],
    ])
}

impl Gntdev {
    /// Opens the device.
    ///
    /// # Errors
    /// Says what to do where it is not there, or not for this user.
    pub fn open() -> Result<Self, RegionError> {
        let device = Device::open(Path::new(DEVICE)).map_err(|error| match error {
            RegionError::Absent { path } => RegionError::Failed {
                path,
                tried: "map grants without it. Load the module: modprobe xen-gntdev",
                errno: Errno::NOENT,
            },
            error => error.with_remedy(ASK_FOR_ACCESS),
        })?;
        let opener = ForkMark::new()
            .map_err(|errno| RegionError::new(Path::new(DEVICE), "mark who has it open", errno))?;
        Ok(Self { device, opener })
    }

    /// The device itself.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Maps pages of a row of grants. With `at`, exactly there.
    ///
    /// # Errors
    /// ENOMEM when Xen refuses a grant (it counts how often a page is mapped), or when its tables
    /// or the kernel's are full; else what the device says.
    ///
    /// # Safety
    /// With `at`, nothing that is still in use may lie in the range.
    pub unsafe fn map(
        &self,
        grants: Grants,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: Option<NonNull<u8>>,
    ) -> Result<Mapping, Errno> {
        let (first, pages) = piece(grants, offset, bytes).ok_or(Errno::INVAL)?;
        let wanted = Grants { domid: grants.domid, first, pages };
        if pages <= MOST_PAGES {
            // SAFETY: by this function's own contract.
            return self.with(|file| unsafe { map_request(file, wanted, protection, at) });
        }
        // In several requests, over one range of addresses.
        let whole = match at {
            Some(at) => at,
            None => Mapping::anonymous(pages as usize * PAGE as usize)?.leak(),
        };
        let mut done = 0;
        while done < pages {
            let some = (pages - done).min(MOST_PAGES);
            let part = Grants { first: first + done, pages: some, ..wanted };
            let begin = done as usize * PAGE as usize;
            // SAFETY: the range was just reserved, or may be replaced, by the caller's contract.
            let mapped = unsafe {
                let at = NonNull::new_unchecked(whole.as_ptr().add(begin));
                self.with(|file| map_request(file, part, protection, Some(at)))
            };
            if let Err(errno) = mapped.map(Mapping::leak) {
                // SAFETY: no other thread has seen the range yet.
                let _ = unsafe { vshmem_mem::unmap(whole, pages as usize * PAGE as usize) };
                return Err(errno);
            }
            done += some;
        }
        // SAFETY: every part of the range is a mapping that was given up to this one.
        Ok(unsafe { Mapping::joined(whole, pages as usize * PAGE as usize) })
    }

    fn with<T>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        if !self.opener.is_of_this_process() {
            self.device.reopen()?;
            self.opener.claim();
        }
        self.device.with(use_it)
    }
}

/// First reference and number of the pages in a range, which must lie inside and be whole.
fn piece(grants: Grants, offset: u64, bytes: usize) -> Option<(u32, u32)> {
    let bytes = (bytes as u64).checked_next_multiple_of(PAGE)?;
    let (skipped, pages) = (u32::try_from(offset / PAGE).ok()?, u32::try_from(bytes / PAGE).ok()?);
    let inside = offset.is_multiple_of(PAGE)
        && pages > 0
        && skipped.checked_add(pages).is_some_and(|end| end <= grants.pages);
    inside.then_some((grants.first.checked_add(skipped)?, pages))
}

/// One request: names the grants, maps them, and takes the names back, so that the mapping's end is
/// the end of all.
///
/// # Safety
/// As [`Gntdev::map`].
unsafe fn map_request(
    file: BorrowedFd<'_>,
    grants: Grants,
    protection: Protection,
    at: Option<NonNull<u8>>,
) -> Result<Mapping, Errno> {
    const GROUP: u8 = b'G';
    const MAP_GRANT_REF: u8 = 0;
    const UNMAP_GRANT_REF: u8 = 1;
    /// Bytes of the structure with one reference, which is what its number says.
    const DECLARED: usize = 24;
    let Grants { domid, first, pages } = grants;
    let bytes = HEAD + u64::from(pages) * 8;
    let memory = Mapping::anonymous(bytes as usize)?;
    let start = memory.start().as_ptr();
    let request = Map::of(memory);
    let outside = |_| Errno::INVAL;
    let order = vshmem_mem::Ordering::Relaxed;
    request.store(0, head(pages), order).map_err(outside)?;
    for page in 0..pages {
        let value = reference(domid, first.wrapping_add(page));
        request.store(HEAD + u64::from(page) * 8, value, order).map_err(outside)?;
    }
    // SAFETY: the request says how many references follow, and as many do.
    unsafe { pass(file, GROUP, MAP_GRANT_REF, DECLARED, start.cast()) }?;
    let index = request.load(8, order).map_err(outside)?;
    let length = pages as usize * PAGE as usize;
    let mapped = match at {
        // SAFETY: by this function's own contract.
        Some(at) => unsafe { map_file_at(file, index, length, protection, at) },
        None => map_file(file, index, length, protection),
    };
    // The grants are in the row, so what Xen has refused is one mapping too many, or a member that
    // is none any more.
    let mapped = mapped.map_err(|errno| if errno == Errno::INVAL { Errno::NOMEM } else { errno });
    request.store(0, index, order).map_err(outside)?;
    request.store(8, head(pages), order).map_err(outside)?;
    // SAFETY: the operation reads index and count. A mapping keeps what it needs.
    let _ = unsafe { pass(file, GROUP, UNMAP_GRANT_REF, 16, start.cast()) };
    mapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_the_pool_is_a_row_of_grants() {
        let grants = Grants { domid: 5, first: 8 + 4096, pages: 4096 };
        assert_eq!(piece(grants, 0, 4096), Some((8 + 4096, 1)));
        assert_eq!(piece(grants, 8192, 4097), Some((8 + 4098, 2)));
        assert_eq!(piece(grants, 4095 * 4096, 4096), Some((8 + 8191, 1)));
        assert_eq!(piece(grants, 4095 * 4096, 8192), None);
        assert_eq!(piece(grants, 100, 4096), None);
        assert_eq!(piece(grants, 0, 0), None);
        assert_eq!(piece(grants, u64::MAX - 4095, 4096), None);
    }

    #[test]
    fn requests_lie_as_the_device_reads_them() {
        let bytes = reference(0x1234, 0x0506_0708).to_ne_bytes();
        assert_eq!(&bytes[..4], &0x1234u32.to_ne_bytes());
        assert_eq!(&bytes[4..], &0x0506_0708u32.to_ne_bytes());
        assert_eq!(&head(7).to_ne_bytes()[..4], &7u32.to_ne_bytes());
    }
}
