//! What all links are built on: opening a device or a file of the kind that it has to be, a
//! descriptor that survives the program it lives in, mapping by that, and how devices are
//! recognised and listed.
//!
//! Programs close descriptors that they do not know (`close_range(3, ~0)`) and open others in
//! their place. So the descriptor is kept high up, and before each use it is compared with what it
//! was; if it means something else by now, the file is opened again and the descriptor left alone.
//!
//! Of huge pages, and of dax devices with a large alignment, the kernel maps and unmaps whole units
//! and nothing else. The units around a range are mapped, and the range inside is what the caller
//! gets. Then a range can only lie at addresses that are the same as its offset modulo a unit, as
//! segments of huge pages do on Linux.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{
    Mapping, Protection, map_file, map_file_at, map_file_free, map_file_near, unless_confined,
};

use crate::gathered::next_place;
use crate::granularity::{Granularity, PAGE_BYTES};
use crate::region::{Region, RegionError};
use crate::user_namespace::UserNamespace;

/// Lowest number for kept descriptors: above what programs use and select(2) can name, below the
/// usual limit of 1024.
const HIGH: i32 = 900;

/// An open device or file that is checked before each use, and the pool in it.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    descriptor: AtomicI32,
    region: Region,
    /// The file's owner as the user namespace of this inode shows it.
    owner: AtomicU32,
    namespace: AtomicU64,
    extent: Extent,
}

/// Where the pool lies in a device, and how it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes in front of it.
    pub front: u64,
    /// Its own bytes.
    pub bytes: u64,
    /// Bytes of the units that the kernel maps, each of them whole.
    pub page_bytes: u64,
}

/// Whether a path is a character device.
pub(crate) fn is_character_device(path: &Path) -> bool {
    rustix::fs::stat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// What a folder has, in order; nothing where there is none.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
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

fn open_high(path: &Path) -> Result<OwnedFd, Errno> {
    // Without waiting for a process that has a lease on it, or for the other end of a pipe.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let low = rustix::fs::open(path, flags, Mode::empty())?;
    match rustix::io::fcntl_dupfd_cloexec(&low, HIGH) {
        Ok(high) => Ok(high),
        // The limit is below: stay where we are.
        Err(_) => Ok(low),
    }
}

impl Device {
    /// Opens a device for reading and writing.
    pub(crate) fn open(path: &Path) -> Result<Self, RegionError> {
        Self::open_kind(path, FileType::CharacterDevice, "no device")
    }

    /// Opens a regular file for reading and writing.
    pub(crate) fn open_file(path: &Path) -> Result<Self, RegionError> {
        Self::open_kind(path, FileType::RegularFile, "no regular file")
    }

    /// Of what kind it is, is decided on the descriptor that is mapped: what a path means can
    /// change.
    fn open_kind(
        path: &Path,
        kind: FileType,
        otherwise: &'static str,
    ) -> Result<Self, RegionError> {
        let file = open_high(path).map_err(|e| RegionError::new(path, "open it", e))?;
        let region =
            region_of(file.as_fd()).map_err(|e| RegionError::new(path, "look at it", e))?;
        if FileType::from_raw_mode(region.mode) != kind {
            return Err(RegionError::NotAFile { path: path.to_owned(), found: otherwise });
        }
        // Later uses may come from another directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let extent = Extent { front: 0, bytes: region.bytes, page_bytes: PAGE_BYTES };
        Ok(Self {
            path,
            descriptor: AtomicI32::new(file.into_raw_fd()),
            region,
            owner: AtomicU32::new(region.owner),
            namespace: AtomicU64::new(UserNamespace::own_inode().unwrap_or_default()),
            extent,
        })
    }

    /// The same device, of which fstat(2) does not say how large it is.
    pub(crate) fn with_bytes(mut self, bytes: u64) -> Self {
        self.extent.bytes = bytes;
        self
    }

    /// The same device, whose pool is not all of it or not mapped by the page.
    pub(crate) fn with_extent(mut self, extent: Extent) -> Self {
        self.extent = extent;
        self
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What fstat(2) said of it.
    pub(crate) fn region(&self) -> Region {
        self.region
    }

    /// Bytes of the pool.
    pub(crate) fn bytes(&self) -> u64 {
        self.extent.bytes
    }

    /// Bytes of the units that the kernel maps.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.extent.page_bytes
    }

    /// Where an offset of the pool lies in the file.
    pub(crate) fn offset_in_file(&self, offset: u64) -> Result<u64, Errno> {
        offset.checked_add(self.extent.front).ok_or(Errno::INVAL)
    }

    /// Writes zeros by write(2), which takes no addresses of the process and no page faults. Not
    /// every file and device has it.
    pub(crate) fn write_zeros(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let end = offset.checked_add(bytes).filter(|end| *end <= self.extent.bytes);
        let end = self.offset_in_file(end.ok_or(Errno::INVAL)?)?;
        let mut at = self.offset_in_file(offset)?;
        self.with(|file| {
            while at < end {
                let part = &ZEROS[..ZEROS.len().min((end - at) as usize)];
                match rustix::io::pwrite(file, part, at) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(written) => at += written as u64,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(())
        })
    }

    /// The kept descriptor.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.load(Ordering::Relaxed)
    }

    /// Maps a part of the pool anywhere.
    pub(crate) fn map(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
    ) -> Result<Mapping, Errno> {
        let offset = self.offset_in_file(offset)?;
        if self.extent.page_bytes == PAGE_BYTES {
            let place = next_place(offset, bytes).unwrap_or(0);
            return self
                .map_by(false, |file| map_file_near(file, offset, bytes, protection, place));
        }
        let (whole, length) = Granularity(self.extent.page_bytes).whole(offset, bytes)?;
        let mapping = self.map_by(false, |file| map_file(file, whole.start, length, protection))?;
        let is_part = length != bytes;
        Ok(if is_part { mapping.narrowed((offset - whole.start) as usize, bytes) } else { mapping })
    }

    /// Maps a part of the pool at an address.
    ///
    /// # Safety
    /// Nothing that is still in use may lie in the range.
    pub(crate) unsafe fn map_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        let offset = self.offset_in_file(offset)?;
        if self.extent.page_bytes == PAGE_BYTES {
            // SAFETY: by this function's own contract.
            return self
                .map_by(true, |file| unsafe { map_file_at(file, offset, bytes, protection, at) });
        }
        // SAFETY: by this function's own contract.
        unsafe { self.map_units_at(offset, bytes, protection, at) }
    }

    /// The same where units larger than a page are mapped.
    ///
    /// # Safety
    /// As [`Device::map_at`].
    unsafe fn map_units_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        let unit = self.extent.page_bytes;
        let (whole, length) = Granularity(unit).whole(offset, bytes)?;
        if length == bytes && (at.addr().get() as u64).is_multiple_of(unit) {
            // SAFETY: by this function's own contract.
            return self
                .map_by(true, |file| unsafe { map_file_at(file, offset, bytes, protection, at) });
        }
        let before = (offset - whole.start) as usize;
        let start = at.addr().get().checked_sub(before).ok_or(Errno::INVAL)?;
        if !(start as u64).is_multiple_of(unit) {
            return Err(Errno::INVAL);
        }
        // What lies in the range itself may be replaced, by the caller's contract; what lies around
        // it may not, so all of it has to be free.
        // SAFETY: by this function's own contract for the range at `at`, which is given up here.
        unsafe { vshmem_mem::unmap(at, bytes) }?;
        let mapping =
            self.map_by(false, |file| map_file_free(file, whole.start, length, protection, start))?;
        Ok(mapping.narrowed(before, bytes))
    }

    /// Maps the file. Another thread may have put another file in the descriptor's place after it
    /// was compared: then that is mapped, which shows afterwards. `replaces`: `map` maps over what
    /// lies there, so that the range is never free for others.
    fn map_by(
        &self,
        replaces: bool,
        map: impl Fn(BorrowedFd<'_>) -> Result<Mapping, Errno>,
    ) -> Result<Mapping, Errno> {
        /// The number of attempts is limited: another thread may keep replacing the descriptor.
        const TRIES: u32 = 8;
        let mut mapping = self.with(&map)?;
        for _ in 0..TRIES {
            if self.is_meant_by(self.number()) {
                return Ok(mapping);
            }
            mapping = if replaces {
                let over = self.with(&map)?;
                mapping.leak();
                over
            } else {
                drop(mapping);
                self.with(&map)?
            };
        }
        Err(Errno::BADF)
    }

    /// Whether a descriptor means this file.
    fn is_meant_by(&self, number: i32) -> bool {
        // SAFETY: the number is only asked what it means; a closed one gives EBADF.
        let kept = unsafe { BorrowedFd::borrow_raw(number) };
        region_of(kept).is_ok_and(|now| self.is_same(&now))
    }

    /// Whether it is the same file. The number of one that is gone may be given to another, of
    /// another user. A process that has come into another user namespace sees the same owner as
    /// another number.
    fn is_same(&self, now: &Region) -> bool {
        if !now.has_number_of(&self.region) {
            return false;
        }
        if now.owner == self.owner.load(Ordering::Relaxed) {
            return true;
        }
        let inode = unless_confined(UserNamespace::own_inode).flatten();
        let Some(inode) = inode.filter(|own| *own != self.namespace.load(Ordering::Relaxed)) else {
            return false;
        };
        self.owner.store(now.owner, Ordering::Relaxed);
        self.namespace.store(inode, Ordering::Relaxed);
        true
    }

    /// Uses the file, opened again if need be and if the program has not confined itself: EBADF
    /// then.
    pub(crate) fn with<T>(
        &self,
        use_it: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let number = self.number();
        if self.is_meant_by(number) {
            // SAFETY: it was this file's just now. Another thread may have closed it since, and
            // opened another file: mappings are compared again (`map_by`).
            return use_it(unsafe { BorrowedFd::borrow_raw(number) });
        }
        let file = unless_confined(|| open_high(&self.path)).unwrap_or(Err(Errno::BADF))?;
        let now = region_of(file.as_fd())?;
        if !self.is_same(&now) {
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
    pub(crate) fn reopen(&self) -> Result<(), Errno> {
        let fresh = open_high(&self.path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_or_no_file_is_refused_by_what_was_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = Device::open(file.path()).unwrap_err().to_string();
        assert!(said.contains("no device"), "{said}");
        let said = Device::open_file(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(said.contains("no regular file"), "{said}");
    }

    #[test]
    fn a_file_that_another_thread_has_put_in_its_place_is_not_mapped() {
        use std::cell::Cell;
        use std::os::unix::fs::FileExt;
        let [pool, other] = ["pool", "text"].map(|text| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(PAGE_BYTES).unwrap();
            file.as_file().write_all_at(text.as_bytes(), 0).unwrap();
            file
        });
        let device = Device::open_file(pool.path()).unwrap();
        let is_late = Cell::new(true);
        let replace = || {
            // SAFETY: the test has the number to itself.
            let made = unsafe { libc::dup2(other.as_file().as_raw_fd(), device.number()) };
            assert_eq!(made, device.number());
        };
        let mapping = device.map_by(false, |file| {
            if is_late.take() {
                replace();
            }
            map_file(file, 0, PAGE_BYTES as usize, Protection::default())
        });
        let mut found = [0; 4];
        vshmem_mem::Map::of(mapping.unwrap()).read(0, &mut found).unwrap();
        assert_eq!(&found, b"pool");
    }

    #[test]
    fn a_pool_behind_other_bytes_is_mapped_where_it_lies() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 * PAGE_BYTES).unwrap();
        file.as_file().write_all_at(b"pool", PAGE_BYTES).unwrap();
        let extent = Extent { front: PAGE_BYTES, bytes: 2 * PAGE_BYTES, page_bytes: PAGE_BYTES };
        let device = Device::open_file(file.path()).unwrap().with_extent(extent);
        let mapping = device.map(0, PAGE_BYTES as usize, Protection::default()).unwrap();
        let mut found = [0; 4];
        vshmem_mem::Map::of(mapping).read(0, &mut found).unwrap();
        assert_eq!(&found, b"pool");
        assert_eq!(device.bytes(), 2 * PAGE_BYTES);
        assert!(device.map(u64::MAX, 1, Protection::default()).is_err());
    }
}
