//! Link `local`: a file on tmpfs or hugetlbfs, for processes and containers of one kernel, and for
//! the host's part in a pool that it lends to guests.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use vshmem_sync::Doorbell;

mod label;

use crate::device::{Device, Extent, entries};
use crate::file_limit;
use crate::granularity::PAGE_BYTES;
use crate::link::{
    Candidate, Capabilities, Changes, Link, LinkKind, Memory, Sleeping, write_zeros,
};
use crate::region::{Region, RegionError};
use crate::served::Served;
pub use label::{DAX_FRONT, dax_label};

/// Where pools are, in order of search.
const DIRECTORIES: [&str; 2] = ["/dev/shm", "/dev/hugepages"];
/// What their file names begin with.
const PREFIX: &str = "vshmem.";

/// What the name of a user's own pool begins with; the uid follows.
pub const PRIVATE_PREFIX: &str = "private-";

/// Segments up to this size are zeroed by write(2), larger ones through a mapping.
const FEW: u64 = 32 << 10;

/// This link has no devices that it recognises: it takes every path that no other link takes.
pub(crate) const KIND: LinkKind = LinkKind {
    name: "local",
    is_device: |_| true,
    open: |path| Ok(Box::new(Local::open(path)?)),
    paths: || Local::candidates().into_iter().map(|candidate| candidate.path).collect(),
};

/// A pool in a file.
#[derive(Debug)]
pub struct Local {
    device: Device,
}

/// Bytes of the pages that a file is mapped in: on hugetlbfs in whole huge ones only.
fn page_bytes_of(file: BorrowedFd<'_>) -> u64 {
    const HUGETLBFS: i64 = 0x9584_58f6;
    let system = rustix::fs::fstatfs(file).ok().filter(|system| system.f_type == HUGETLBFS);
    system
        .and_then(|system| u64::try_from(system.f_bsize).ok())
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(PAGE_BYTES)
}

impl Local {
    /// The file of a pool called `name`; with `huge`, on hugetlbfs.
    #[must_use]
    pub fn path_of(name: &str, huge: bool) -> PathBuf {
        Path::new(DIRECTORIES[usize::from(huge)]).join(format!("{PREFIX}{name}"))
    }

    /// Opens a pool's file.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(path: &Path) -> Result<Self, RegionError> {
        let link = Self { device: Device::open_file(path)? };
        link.check_owner()?;
        let bytes = link.device.region().bytes;
        let extent = |file: BorrowedFd<'_>| {
            // 0, or a label for guests' nvdimm drivers.
            let front = label::front_of(file, bytes);
            Ok(Extent { front, bytes: bytes - front, page_bytes: page_bytes_of(file) })
        };
        let extent = link.device.with(extent);
        let extent = extent.map_err(|errno| RegionError::new(path, "read it", errno))?;
        Ok(Self { device: link.device.with_extent(extent) })
    }

    /// Whether a file that is called a user's private pool is that. Decided on the descriptor that
    /// is mapped.
    fn check_owner(&self) -> Result<(), RegionError> {
        let Region { owner, mode, .. } = self.device.region();
        let Some(uid) = self.name().and_then(private_owner) else { return Ok(()) };
        let why = if owner != uid {
            format!("it belongs to user {owner}")
        } else if mode & 0o077 != 0 {
            format!("others may use it (its mode is {:04o})", mode & 0o777)
        } else {
            return Ok(());
        };
        Err(RegionError::NotPrivate { path: self.path().to_owned(), uid, why })
    }

    /// The name in a pool's file name.
    fn name(&self) -> Option<&str> {
        self.device.path().file_name()?.to_str()?.strip_prefix(PREFIX)
    }

    /// Files that might hold a pool.
    #[must_use]
    pub fn candidates() -> Vec<Candidate> {
        let is_pool = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(PREFIX))
                && path.symlink_metadata().is_ok_and(|meta| meta.is_file())
        };
        let mut found: Vec<PathBuf> = DIRECTORIES
            .iter()
            .flat_map(|folder| entries(Path::new(folder)))
            .filter(is_pool)
            .collect();
        found.sort();
        found.into_iter().map(|path| Candidate { kind: KIND.name, path }).collect()
    }
}

/// The user whose private pool a name is; `None`: it is no such name.
fn private_owner(name: &str) -> Option<u32> {
    name.strip_prefix(PRIVATE_PREFIX)?.parse().ok()
}

impl Link for Local {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let start = self.device.offset_in_file(offset)?;
        let mut used = 0;
        while used < into.len() {
            let at = start + used as u64;
            match self.device.with(|file| rustix::io::pread(file, &mut into[used..], at)) {
                Ok(0) => break,
                Ok(more) => used += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(used)
    }

    fn owner(&self) -> Option<u32> {
        Some(self.device.region().owner)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sleeping: Sleeping::InPool,
            memory: Memory::File,
            changes: Changes::InPlace,
            children_inherit: true,
            page_bytes: self.device.page_bytes(),
        }
    }

    /// These pages are there already: writing zeros is cheaper than freeing and taking them. Few of
    /// them by write(2), and all where there are no addresses to map them. hugetlbfs has no write,
    /// and the limit on the size of files counts for a file that is as long already, too.
    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        let end = self.device.offset_in_file(offset)?.saturating_add(bytes);
        let may_write = file_limit::allows(end).is_ok();
        if bytes <= FEW && may_write && self.device.write_zeros(offset, bytes).is_ok() {
            return Ok(());
        }
        match write_zeros(self, offset, bytes) {
            Err(Errno::NOMEM) if may_write => self.device.write_zeros(offset, bytes),
            other => other,
        }
    }

    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno> {
        let start = self.device.offset_in_file(offset)?;
        if zero {
            return self.zero(offset, bytes);
        }
        self.device.with(|file| {
            loop {
                match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, start, bytes) {
                    Err(Errno::INTR) => {}
                    other => return other,
                }
            }
        })
    }

    fn file(&self) -> Option<Region> {
        Some(self.device.region())
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::new(Served::of(self.name()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, fchown};

    use super::*;

    /// Opens a file of that name, owner and mode.
    fn open_as(name: &str, uid: u32, mode: u32) -> Result<Local, RegionError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(4096).unwrap();
        fchown(&file, Some(uid), None).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        Local::open(&path)
    }

    #[test]
    fn a_private_pool_belongs_to_its_user_only() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        assert!(open_as("vshmem.private-61001", 61001, 0o600).is_ok());
        assert!(open_as("vshmem.private-x", 61002, 0o666).is_ok(), "no private name");
        for (uid, mode, why) in [
            (61002, 0o600, "belongs to user 61002"),
            (0, 0o600, "belongs to user 0"),
            (61001, 0o620, "others may use it"),
            (61001, 0o604, "others may use it"),
        ] {
            let said = open_as("vshmem.private-61001", uid, mode).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("user 61001"), "{said}");
        }
    }

    #[test]
    fn what_is_no_file_is_no_pool_and_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vshmem.pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if made.is_ok_and(|made| made.success()) {
            let said = Local::open(&path).unwrap_err().to_string();
            assert!(said.contains("no regular file"), "{said}");
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_read_as_far_as_it_goes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let link = Local::open(file.path()).unwrap();
        let mut bytes = [1; 8192];
        assert_eq!(link.read(0, &mut bytes), Ok(8192));
        file.as_file().set_len(100).unwrap();
        assert_eq!(link.read(0, &mut bytes), Ok(100));
        assert_eq!(link.read(4096, &mut bytes), Ok(0));
    }
}
