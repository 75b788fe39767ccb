//! What a link is to those above it.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection};
use vshmem_sync::Doorbell;

use crate::device::Device;
use crate::granularity::{Granularity, PAGE_BYTES};
use crate::region::{Region, RegionError};
use crate::user_namespace::OVERFLOW_ID;

/// Where the words lie that a thread of this domain can sleep on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleeping {
    /// In the pool: this kernel can sleep on its memory, and wakes every process that maps it.
    InPool,
    /// In a file of this domain: the kernel cannot sleep on this kind of memory (EFAULT).
    InDomain,
}

/// What a link can, and what has to be done in another way under it.
///
/// What a link gives beside (a doorbell, the pool's file, the ends of processes) is a method of
/// [`Link`] that has none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Where threads sleep.
    pub sleeping: Sleeping,
    /// Whose pages lie behind a mapping.
    pub memory: Memory,
    /// How a mapping is changed.
    pub changes: Changes,
    /// Whether a child that fork has made has its parent's mappings. Where it has not, nothing is
    /// at their addresses, and it has to map them again.
    pub children_inherit: bool,
    /// Bytes of the units that the kernel maps and unmaps, each of them whole.
    pub page_bytes: u64,
}

impl Capabilities {
    /// The capabilities for a device whose memory is not made of the kernel's pages.
    pub const DEVICE: Self = Self {
        sleeping: Sleeping::InDomain,
        memory: Memory::Device,
        changes: Changes::InPlace,
        children_inherit: true,
        page_bytes: PAGE_BYTES,
    };

    /// The range of addresses that a mapping of `bytes` at `start` took, where larger units than it
    /// was asked for are mapped.
    #[must_use]
    pub fn footprint(&self, start: usize, bytes: usize) -> Range<usize> {
        match self.page_bytes {
            PAGE_BYTES => start..start.saturating_add(bytes),
            large => Granularity(large).footprint(start, bytes),
        }
    }
}

/// What lies behind a mapping of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A file of this kernel's.
    File,
    /// A device: the kernel has nothing to write back or to drop there, and refuses to (EINVAL).
    Device,
}

/// How a mapping of a pool is given other rights or another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// By mprotect(2) and mremap(2).
    InPlace,
    /// It is replaced: other rights are another mapping, it is not moved, and the kernel must not
    /// be asked to drop its pages.
    ByReplacement,
}

/// The hypervisor-dependent bottom half of one pool. What all links share is in `device.rs`; each
/// says here what is its own.
pub trait Link: std::fmt::Debug + Send + Sync {
    /// Name of the link: `local`, `uml`, ...
    fn kind(&self) -> &'static str;

    /// The open device or file that the pool is mapped from.
    fn device(&self) -> &Device;

    /// What it can, and what has to be done in another way under it.
    fn capabilities(&self) -> Capabilities;

    /// File or device.
    fn path(&self) -> &Path {
        self.device().path()
    }

    /// Bytes of the region.
    fn bytes(&self) -> u64 {
        self.device().bytes()
    }

    /// Maps a range of the pool, whole pages, anywhere.
    ///
    /// # Errors
    /// What mmap(2) says.
    fn map(&self, offset: u64, bytes: usize, protection: Protection) -> Result<Mapping, Errno> {
        self.device().map(offset, bytes, protection)
    }

    /// Maps a range of the pool, whole pages, at an address, replacing what is mapped there.
    ///
    /// # Errors
    /// What mmap(2) says; EINVAL where the device maps larger units, and the address does not suit
    /// them.
    ///
    /// # Safety
    /// Nothing that is still in use may lie in the range.
    unsafe fn map_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        // SAFETY: by this function's own contract.
        unsafe { self.device().map_at(offset, bytes, protection, at) }
    }

    /// Copies bytes out of the pool, from a whole page on. Returns how many there are.
    ///
    /// # Errors
    /// What mapping or reading gives. Where another user can shorten the region, an error and no
    /// signal.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let mapping = self.map(offset, into.len(), Protection::default())?;
        vshmem_mem::Map::of(mapping).read(0, into).map_err(|_| Errno::IO)?;
        Ok(into.len())
    }

    /// Whether other machines work on the memory. They can then see the single steps of an atomic
    /// operation of this machine, if an emulator carries it out in steps.
    fn leaves_machine(&self) -> bool {
        false
    }

    /// The user that the region belongs to, by the open file, where users can make regions
    /// themselves.
    fn owner(&self) -> Option<u32> {
        None
    }

    /// Whether nobody but a user may open the region, by what fstat(2) said of the open file: it is
    /// that user's, and its mode lets no others. An owner that this user namespace does not show is
    /// nobody's.
    fn is_only_of(&self, user: u32) -> bool {
        let region = self.device().region();
        user != OVERFLOW_ID && region.owner == user && region.mode & 0o077 == 0
    }

    /// Whether a user may decide for others that a machine leaves the pool: its owner by what
    /// fstat(2) said of the open file or device, and root where that owner is one of its user
    /// namespace's, as the kernel has it for what root may do to a file.
    fn is_ruled_by(&self, user: u32) -> bool {
        let owner = self.device().region().owner;
        owner != OVERFLOW_ID && (user == owner || user == 0)
    }

    /// Makes sure that memory stands behind a range, so that touching it cannot fail later; with
    /// `zero`, that it reads as zeros.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM when it cannot be backed.
    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno> {
        // Where the pool is lent to this machine, its maker has backed the whole of it.
        if zero { self.zero(offset, bytes) } else { Ok(()) }
    }

    /// Writes zeros over a range, whatever bytes it begins and ends at.
    ///
    /// # Errors
    /// What mapping it gives.
    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        write_zeros(self, offset, bytes)
    }

    /// Looks at the descriptor, after this process has come into another user namespace.
    fn recognize(&self) {
        let _ = self.device().with(|_| Ok(()));
    }

    /// The descriptor that a program must not use or close.
    fn descriptor(&self) -> i32 {
        self.device().number()
    }

    /// What to do when ENOMEM comes back from [`Link::map`], where that has causes of the
    /// hypervisor's.
    fn no_room(&self) -> Option<&'static str> {
        None
    }

    /// How well the link works here, where it can be had in several ways; "" otherwise.
    fn grade(&self) -> &'static str {
        ""
    }

    /// The pool's file, where the pool is one of this machine's.
    fn file(&self) -> Option<Region> {
        None
    }

    /// What notifies other domains, where the link can.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
    }

    /// A descriptor for this domain's agent: readable when the domain has been notified, until
    /// eight bytes are read; with priority data (POLLPRI) when [`Link::ended_processes`] has
    /// something to tell.
    ///
    /// # Errors
    /// What opening it gives.
    fn doorbell_descriptor(&self) -> Result<Option<OwnedFd>, Errno> {
        Ok(None)
    }

    /// Has the end of this process reported by [`Link::ended_processes`], where the link can. Makes
    /// no use of the heap.
    fn register_process(&self) {}

    /// Pids of registered processes that have ended since `descriptor`, from
    /// [`Link::doorbell_descriptor`], was last asked.
    fn ended_processes(&self, _descriptor: BorrowedFd<'_>) -> Vec<u32> {
        Vec::new()
    }
}

/// Writes zeros over a range, through a mapping of it.
pub(crate) fn write_zeros<L: Link + ?Sized>(
    link: &L,
    offset: u64,
    bytes: u64,
) -> Result<(), Errno> {
    /// What is mapped at once where the process has no addresses for the whole.
    const PORTION: u64 = 64 << 10;
    let end = offset.checked_add(bytes).ok_or(Errno::INVAL)?;
    let (mut at, mut most) = (offset, bytes);
    while at < end {
        let part = most.min(end - at);
        match write_mapped_zeros(link, at, part) {
            Ok(()) => at += part,
            Err(Errno::NOMEM) if most > PORTION => most = PORTION,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn write_mapped_zeros<L: Link + ?Sized>(link: &L, offset: u64, bytes: u64) -> Result<(), Errno> {
    let before = offset % PAGE_BYTES;
    let length = usize::try_from(before + bytes).map_err(|_| Errno::NOMEM)?;
    let mapping = link.map(offset - before, length, Protection::READ_WRITE)?;
    vshmem_mem::Map::of(mapping).zero(before, bytes as usize).map_err(|_| Errno::IO)
}

/// A link, in its own words: how its devices are recognised, found and opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkKind {
    /// Its name, as [`Link::kind`] has it.
    pub name: &'static str,
    /// Whether a path is one of its devices or files.
    pub is_device: fn(&Path) -> bool,
    /// Opens one.
    pub open: fn(&Path) -> Result<Box<dyn Link>, RegionError>,
    /// Those that this machine was given and that might hold a pool.
    pub paths: fn() -> Vec<PathBuf>,
}

/// A region that might hold a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the link.
    pub kind: &'static str,
    /// File or device.
    pub path: PathBuf,
}
