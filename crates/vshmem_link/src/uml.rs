//! Link `uml`: a User Mode Linux guest's `/dev/mmapper`, behind which the host has put the pool's
//! file (`iomem=mmapper,FILE` on the guest's command line).
//!
//! The device maps from offset 0 only, so a part is mapped as a prefix and moved out of it. The
//! kernel cannot sleep on such memory, and no process outside the guest can interrupt it.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, remap_part};

use crate::device::{Device, is_character_device};
use crate::granularity::PAGE_BYTES;
use crate::link::{Capabilities, Link, LinkKind, write_zeros};
use crate::region::RegionError;

/// The device.
const DEVICE: &str = "/dev/mmapper";
/// Bytes that are asked for first when looking for the size of the region: 1 TiB.
const LARGEST: u64 = 1 << 40;

/// What distinguishes it from others.
pub(crate) const KIND: LinkKind = LinkKind {
    name: "uml",
    is_device: |path| {
        path.file_name().is_some_and(|name| name == "mmapper") && is_character_device(path)
    },
    open: |path| Ok(Box::new(Uml::open(path)?)),
    paths: || {
        let path = PathBuf::from(DEVICE);
        if (KIND.is_device)(&path) { vec![path] } else { Vec::new() }
    },
};

/// A pool behind mmapper.
#[derive(Debug)]
pub struct Uml {
    device: Device,
}

impl Uml {
    /// Opens the device and finds out how large its region is.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(path: &Path) -> Result<Self, RegionError> {
        let device = Device::open(path)?;
        let bytes = region_bytes(&device).map_err(|e| RegionError::new(path, "map it", e))?;
        Ok(Self { device: device.with_bytes(bytes) })
    }

    /// Maps what lies in front of a part, and moves the part out of it.
    ///
    /// # Safety
    /// With `at`, nothing that is still in use may lie in the range.
    unsafe fn map_part(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: Option<NonNull<u8>>,
    ) -> Result<Mapping, Errno> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.bytes());
        let prefix = usize::try_from(end.ok_or(Errno::INVAL)?).map_err(|_| Errno::NOMEM)?;
        // All rights at first: what a PFN mapping may become is fixed when it is made.
        let whole = self.device.map(0, prefix, Protection::READ_WRITE)?;
        let start = offset as usize;
        // SAFETY: `whole` was made here and is seen by no other code; what lies at `at` may
        // be replaced, by the caller's contract.
        let part = unsafe { remap_part(&whole, start, bytes, protection, at) }?;
        // What is left of the prefix ends before the part that was moved away.
        whole.forget_from(start);
        Ok(part)
    }
}

/// The device does not tell its size, and maps nothing longer than it is.
fn region_bytes(device: &Device) -> Result<u64, Errno> {
    let maps = |bytes: u64| device.map(0, bytes as usize, Protection::default()).map(drop);
    maps(PAGE_BYTES)?;
    // The superblock holds the pool's own size, which is checked against this.
    let header = vshmem_mem::Map::of(device.map(0, PAGE_BYTES as usize, Protection::default())?);
    let declared = header.load(SIZE_AT, vshmem_mem::Ordering::Relaxed).unwrap_or(0);
    if (PAGE_BYTES..LARGEST).contains(&declared) && maps(declared).is_ok() {
        return Ok(declared);
    }
    // Not a pool, or a truncated one: measure by halving, for the error message.
    let (mut low, mut high) = (1, LARGEST / PAGE_BYTES);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if maps(middle * PAGE_BYTES).is_ok() { low = middle } else { high = middle - 1 }
    }
    Ok(low * PAGE_BYTES)
}

/// Where a superblock keeps the size of its pool. Checked against `vshmem_wire` by a test of the
/// crates that join the two.
pub const SIZE_AT: u64 = 96;

impl Link for Uml {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::DEVICE
    }

    fn map(&self, offset: u64, bytes: usize, protection: Protection) -> Result<Mapping, Errno> {
        if offset == 0 && bytes as u64 <= self.bytes() {
            return self.device.map(0, bytes, protection);
        }
        // SAFETY: no address is given.
        unsafe { self.map_part(offset, bytes, protection, None) }
    }

    /// By the device's own write, which copies without a page fault: each of those takes this
    /// guest's kernel some 0.2 ms, and the program that touches the pages has them again.
    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.device.write_zeros(offset, bytes).or_else(|_| write_zeros(self, offset, bytes))
    }

    unsafe fn map_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        if offset == 0 && bytes as u64 <= self.bytes() {
            // SAFETY: by this function's own contract.
            return unsafe { self.device.map_at(0, bytes, protection, at) };
        }
        // SAFETY: by this function's own contract.
        unsafe { self.map_part(offset, bytes, protection, Some(at)) }
    }
}
