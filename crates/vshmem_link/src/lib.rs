//! Bottom halves: how a pool is found, mapped and unmapped under each hypervisor.
//!
//! A link is one file here behind the [`Link`] trait. Nothing above this crate knows which one it
//! is, and nothing here knows what lies in a pool beyond its first page, which the caller reads.

#![allow(unsafe_code)] // mapping at a given address is the caller's to vouch for

mod dax;
mod device;
mod domain;
mod file_limit;
mod ivshmem;
mod local;
mod namespace;
mod peer;
mod process;
mod rates;
mod region;
mod served;
mod uml;
mod wait_words;
mod xen;

pub use dax::Dax;
pub use domain::{Anonymous, DomainFacts, domain_facts};
pub use file_limit::{FILE_LIMIT, allows as file_limit_allows};
pub use ivshmem::Ivshmem;
pub use local::{DAX_FRONT, dax_label};
pub use local::{Local, PRIVATE_PREFIX};
pub use namespace::{Sighting, sight};
pub use peer::peer_groups;
pub use process::{
    Life, ProcessFacts, command_name, is_same_start, process_exists, process_facts, process_start,
};
pub use rates::{Rates, measure_rates};
pub use region::{Region, RegionError};
pub use served::{Served, control_socket};
pub use uml::{SIZE_AT, Uml};
pub use wait_words::{OwnWords, open_wait_words, wait_files};
pub use xen::host::{
    Admission as XenAdmission, Member as XenMember, PoolDomain, Room as XenRoom, Slot as XenSlot,
    Wanted as XenWanted, XenError,
};
pub use xen::{Store as XenStore, Xen};

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection};
use vshmem_sync::Doorbell;

/// Where the words lie that a thread of this domain can sleep on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleeping {
    /// In the pool: this kernel can sleep on its memory, and wakes every process that maps it.
    InPool,
    /// In a file of this domain: the kernel cannot sleep on this kind of memory (EFAULT).
    InDomain,
}

/// The hypervisor-dependent bottom half of one pool.
pub trait Link: std::fmt::Debug + Send + Sync {
    /// Name of the link: `local`, `uml`, ...
    fn kind(&self) -> &'static str;

    /// File or device.
    fn place(&self) -> &Path;

    /// Bytes of the region.
    fn bytes(&self) -> u64;

    /// Where threads sleep.
    fn sleeping(&self) -> Sleeping;

    /// Maps a range of the pool, whole pages. With `at`, exactly there, replacing what is mapped.
    ///
    /// # Errors
    /// What mmap(2) says.
    ///
    /// # Safety
    /// With `at`, nothing that is still in use may lie in the range.
    unsafe fn map(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: Option<NonNull<u8>>,
    ) -> Result<Mapping, Errno>;

    /// Copies bytes out of the pool, from a whole page on. Returns how many there are.
    ///
    /// # Errors
    /// What mapping or reading gives. Where another user can shorten the region, an error and no signal.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: no address is given.
        let mapping = unsafe { self.map(offset, into.len(), Protection::default(), None) }?;
        vshmem_mem::Map::of(mapping).read(0, into).map_err(|_| Errno::IO)?;
        Ok(into.len())
    }

    /// The user that the region belongs to, by the open file, where users can make regions themselves.
    fn owner(&self) -> Option<u32> {
        None
    }

    /// Makes sure that memory stands behind a range, so that touching it cannot fail later; with
    /// `zero`, that it reads as zeros.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM when it cannot be backed.
    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno> {
        // Where the pool is lent to this machine, whoever made it has backed the whole of it.
        if zero { write_zeros(self, offset, bytes) } else { Ok(()) }
    }

    /// The descriptor that a program must not use or close, if one is kept.
    fn descriptor(&self) -> Option<i32>;

    /// Whether the pool's memory is a device's: then the kernel has nothing to write back or to drop
    /// there, and refuses to (EINVAL).
    fn is_device_memory(&self) -> bool {
        true
    }

    /// What to do when ENOMEM comes back from [`Link::map`], where that has causes of the hypervisor's.
    fn no_room(&self) -> Option<&'static str> {
        None
    }

    /// Whether a mapping can only be replaced: other rights are another mapping, it is not moved, and
    /// the kernel must not be asked to drop its pages.
    fn is_fixed(&self) -> bool {
        false
    }

    /// Whether a child that fork has made has its parent's mappings. Where it has not, nothing is at
    /// their addresses, and it has to map them again.
    fn is_inherited(&self) -> bool {
        true
    }

    /// How well the link works here, where it can be had in several ways; "" otherwise.
    fn grade(&self) -> &'static str {
        ""
    }

    /// The pool's file, where the pool is one of this machine's.
    fn file(&self) -> Option<Region> {
        None
    }

    /// What rings other domains, where the link can.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
    }

    /// A descriptor for this domain's agent: readable when the domain has been rung, until eight
    /// bytes are read; with priority data (POLLPRI) when [`Link::ended_processes`] has something
    /// to tell.
    ///
    /// # Errors
    /// What opening it gives.
    fn doorbell_descriptor(&self) -> Result<Option<OwnedFd>, Errno> {
        Ok(None)
    }

    /// Has the end of this process told by [`Link::ended_processes`], where the link can. Makes no
    /// use of the heap.
    fn register_process(&self) {}

    /// Pids of registered processes that have ended since `descriptor`, from
    /// [`Link::doorbell_descriptor`], was last asked.
    fn ended_processes(&self, _descriptor: BorrowedFd<'_>) -> Vec<u32> {
        Vec::new()
    }

    /// The range of addresses that a mapping of `bytes` at `start` took, where the device maps
    /// larger pieces than it was asked for.
    fn footprint(&self, start: usize, bytes: usize) -> std::ops::Range<usize> {
        start..start.saturating_add(bytes)
    }
}

/// Writes zeros to a range of a pool through a mapping of its own.
pub(crate) fn write_zeros<L: Link + ?Sized>(
    link: &L,
    offset: u64,
    bytes: u64,
) -> Result<(), Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    // SAFETY: no address is given.
    let mapping = unsafe { link.map(offset, bytes, Protection::READ_WRITE, None) }?;
    vshmem_mem::Map::of(mapping).zero(0, bytes).map_err(|_| Errno::IO)
}

/// A region that might hold a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the link.
    pub kind: &'static str,
    /// File or device.
    pub place: PathBuf,
}

/// Everything that this machine was given and that might hold a pool. Superblocks are the caller's to read.
#[must_use]
pub fn devices() -> Vec<Candidate> {
    let mut found = Uml::candidates();
    found.extend(Ivshmem::candidates());
    found.extend(Dax::candidates());
    found.extend(Xen::candidates());
    found
}

/// Opens a region by its file or device.
///
/// # Errors
/// Says what was tried, what came back, and what to do.
pub fn open(place: &Path) -> Result<Box<dyn Link>, RegionError> {
    if Uml::is_device(place) {
        return Ok(Box::new(Uml::open(place)?));
    }
    if Ivshmem::is_device(place) {
        return Ok(Box::new(Ivshmem::open(place)?));
    }
    if Dax::is_device(place) {
        return Ok(Box::new(Dax::open(place)?));
    }
    if Xen::is_device(place) {
        return Ok(Box::new(Xen::open(place)?));
    }
    Ok(Box::new(Local::open(place)?))
}
