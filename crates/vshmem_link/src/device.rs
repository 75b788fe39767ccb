//! What the links that have a device or a file are built on: a descriptor that survives the program
//! it lives in, mapping by it, and how devices are recognised and listed.
//!
//! Programs close descriptors that they do not know (`close_range(3, ~0)`) and open others in
//! their place. So the descriptor is kept high up, and before each use it is compared with what it
//! was; if it means something else by now, the file is opened again and the descriptor left alone.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file, map_file_at, unless_confined};

use crate::region::{Region, RegionError};

/// Lowest number for kept descriptors: above what programs use and select(2) can name, below the
/// usual limit of 1024.
const HIGH: i32 = 900;

/// An open file that is checked before each use.
#[derive(Debug)]
pub(crate) struct Device {
    place: PathBuf,
    descriptor: AtomicI32,
    region: Region,
}

/// Whether a path is a character device.
pub(crate) fn is_character_device(place: &Path) -> bool {
    rustix::fs::stat(place)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// What a folder has, in order; nothing where there is none.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Says to who is not allowed to use a device what the administrator can do about it.
pub(crate) fn or_what_to_do(error: RegionError, remedy: &'static str) -> RegionError {
    match error {
        RegionError::Denied { place } => RegionError::DeniedDevice { place, remedy },
        error => error,
    }
}

fn region_of(file: BorrowedFd<'_>) -> Result<Region, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(Region {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size as u64,
        owner: stat.st_uid,
        mode: stat.st_mode,
    })
}

fn open_high(place: &Path) -> Result<OwnedFd, Errno> {
    // Without waiting for a process that has a lease on it, or for the other end of a pipe.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let low = rustix::fs::open(place, flags, Mode::empty())?;
    match rustix::io::fcntl_dupfd_cloexec(&low, HIGH) {
        Ok(high) => Ok(high),
        // The limit is below: stay where we are.
        Err(_) => Ok(low),
    }
}

impl Device {
    /// Opens a file for reading and writing.
    pub fn open(place: &Path) -> Result<Self, RegionError> {
        let file = open_high(place).map_err(|e| RegionError::new(place, "open it", e))?;
        let region =
            region_of(file.as_fd()).map_err(|e| RegionError::new(place, "look at it", e))?;
        // Later uses may come from another directory.
        let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
        Ok(Self { place, descriptor: AtomicI32::new(file.into_raw_fd()), region })
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    pub fn region(&self) -> Region {
        self.region
    }

    pub fn number(&self) -> i32 {
        self.descriptor.load(Ordering::Relaxed)
    }

    /// Maps a part of it anywhere.
    pub fn map(&self, offset: u64, bytes: usize, protection: Protection) -> Result<Mapping, Errno> {
        self.with(|file| map_file(file, offset, bytes, protection))
    }

    /// Maps a part of it at an address.
    ///
    /// # Safety
    /// Nothing that is still in use may lie in the range.
    pub unsafe fn map_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        // SAFETY: by this function's own contract.
        self.with(|file| unsafe { map_file_at(file, offset, bytes, protection, at) })
    }

    /// Uses the file, opened again if need be and if the program has not confined itself: EBADF
    /// then.
    pub fn with<T>(
        &self,
        use_it: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let number = self.number();
        // SAFETY: the number is only used to ask what it means; a closed one gives EBADF, and one
        // that means another file is not used.
        let kept = unsafe { BorrowedFd::borrow_raw(number) };
        let same = region_of(kept).is_ok_and(|now| now.is_same(&self.region));
        if same {
            return use_it(kept);
        }
        let file = unless_confined(|| open_high(&self.place)).unwrap_or(Err(Errno::BADF))?;
        let now = region_of(file.as_fd())?;
        if !now.is_same(&self.region) {
            // The pool was removed and made again: not the one that is mapped.
            return Err(Errno::STALE);
        }
        let result = use_it(file.as_fd());
        self.descriptor.store(file.into_raw_fd(), Ordering::Relaxed);
        result
    }
}

impl Device {
    /// Opens the file anew, and closes what was open if that is still this device's own.
    pub fn reopen(&self) -> Result<(), Errno> {
        let fresh = open_high(&self.place)?;
        let former = self.with(|file| Ok(file.as_raw_fd()));
        self.descriptor.store(fresh.into_raw_fd(), Ordering::Relaxed);
        if let Ok(number) = former {
            // SAFETY: just checked to be this device's own descriptor, which no other code closes.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let still_ours = self.with(|file| Ok(file.as_raw_fd()));
        if let Ok(number) = still_ours {
            // SAFETY: just checked to be this device's own descriptor, which no other code closes.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}
