//! Link `local`: a file on tmpfs or hugetlbfs, for processes and containers of one kernel, and for
//! the host's part in a pool that it lends to guests.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file};
use vshmem_sync::Doorbell;

use crate::device::Device;
use crate::{Candidate, Link, RegionError, Served, Sleeping, label, write_zeros};

/// Where pools are, in order of search.
const DIRECTORIES: [&str; 2] = ["/dev/shm", "/dev/hugepages"];
/// What their file names begin with.
const PREFIX: &str = "vshmem.";

/// Segments up to this size are zeroed by write(2), larger ones through a mapping.
static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// A pool in a file.
#[derive(Debug)]
pub struct Local {
    device: Device,
    /// Bytes in front of the pool: 0, or a label for guests' nvdimm drivers.
    front: u64,
}

impl Local {
    /// The file of a pool called `name`; with `huge`, on hugetlbfs.
    #[must_use]
    pub fn place_of(name: &str, huge: bool) -> PathBuf {
        Path::new(DIRECTORIES[usize::from(huge)]).join(format!("{PREFIX}{name}"))
    }

    /// Opens a pool's file.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(place: &Path) -> Result<Self, RegionError> {
        let device = Device::open(place)?;
        let front = device
            .with(|file| Ok(label::front_of(file, device.region().bytes)))
            .map_err(|errno| RegionError::new(place, "read it", errno))?;
        Ok(Self { device, front })
    }

    /// Bytes of the file in front of the pool.
    #[must_use]
    pub fn front(&self) -> u64 {
        self.front
    }

    /// The name in a pool's file name.
    fn name(&self) -> Option<&str> {
        self.device.place().file_name()?.to_str()?.strip_prefix(PREFIX)
    }

    /// Files that might hold a pool.
    #[must_use]
    pub fn candidates() -> Vec<Candidate> {
        let mut found = Vec::new();
        for directory in DIRECTORIES {
            let Ok(entries) = std::fs::read_dir(directory) else {
                continue;
            };
            for entry in entries.flatten() {
                let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
                if ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    found.push(Candidate { kind: "local", place: entry.path() });
                }
            }
        }
        found.sort_by(|a, b| a.place.cmp(&b.place));
        found
    }
}

impl Link for Local {
    fn kind(&self) -> &'static str {
        "local"
    }

    fn place(&self) -> &Path {
        self.device.place()
    }

    fn bytes(&self) -> u64 {
        self.device.region().bytes - self.front
    }

    fn sleeping(&self) -> Sleeping {
        Sleeping::InPool
    }

    unsafe fn map(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: Option<NonNull<u8>>,
    ) -> Result<Mapping, Errno> {
        let offset = offset.checked_add(self.front).ok_or(Errno::INVAL)?;
        // SAFETY: by this function's own contract.
        self.device.with(|file| unsafe { map_file(file, offset, bytes, protection, at) })
    }

    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno> {
        if zero {
            // These pages are there already: writing zeros is cheaper than freeing and taking them.
            if bytes as usize <= ZEROS.len() {
                let few = &ZEROS[..bytes as usize];
                let written =
                    self.device.with(|file| rustix::io::pwrite(file, few, offset + self.front));
                if written == Ok(few.len()) {
                    return Ok(());
                }
                // hugetlbfs has no write.
            }
            return write_zeros(self, offset, bytes);
        }
        self.device.with(|file| {
            loop {
                match rustix::fs::fallocate(
                    file,
                    FallocateFlags::KEEP_SIZE,
                    offset + self.front,
                    bytes,
                ) {
                    Err(Errno::INTR) => {}
                    other => return other,
                }
            }
        })
    }

    fn is_device_memory(&self) -> bool {
        false
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.device.number())
    }

    fn file(&self) -> Option<crate::Region> {
        Some(self.device.region())
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::new(Served::of(self.name()?)))
    }
}
