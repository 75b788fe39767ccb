//! Link `local`: a file on tmpfs or hugetlbfs, for processes and containers of one kernel, and for
//! the host's part in a pool that it lends to guests.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file};

use crate::device::Device;
use crate::{Candidate, Link, RegionError, Sleeping};

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
        Ok(Self { device: Device::open(place)? })
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
        self.device.region().bytes
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
        // SAFETY: by this function's own contract.
        self.device.with(|file| unsafe { map_file(file, offset, bytes, protection, at) })
    }

    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno> {
        if zero {
            // These pages are there already: writing zeros is cheaper than freeing and taking them.
            if bytes as usize <= ZEROS.len() {
                let few = &ZEROS[..bytes as usize];
                let written = self.device.with(|file| rustix::io::pwrite(file, few, offset));
                if written == Ok(few.len()) {
                    return Ok(());
                }
                // hugetlbfs has no write.
            }
            let length = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
            // SAFETY: no address is given.
            let mapping = unsafe { self.map(offset, length, Protection::READ_WRITE, None) }?;
            return vshmem_mem::Map::of(mapping).zero(0, length).map_err(|_| Errno::IO);
        }
        self.device.with(|file| {
            loop {
                match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes) {
                    Err(Errno::INTR) => {}
                    other => return other,
                }
            }
        })
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.device.number())
    }
}
