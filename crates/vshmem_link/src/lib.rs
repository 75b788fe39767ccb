//! Bottom halves: how a pool is found, mapped and unmapped under each hypervisor.
//!
//! A link is one file here behind the [`Link`] trait. Nothing above this crate knows which one it
//! is, and nothing here knows what lies in a pool beyond its first page, which the caller reads.

#![allow(unsafe_code)] // mapping at a given address is the caller's to vouch for

mod device;
mod domain;
mod local;
mod region;
mod uml;
mod words;

pub use domain::{DomainFacts, ProcessFacts, domain_facts, process_exists, process_facts};
pub use local::Local;
pub use region::{Region, RegionError};
pub use uml::{SIZE_AT, Uml};
pub use words::open_wait_file;

use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection};

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

    /// Makes sure that memory stands behind a range, so that touching it cannot fail later; with
    /// `zero`, that it reads as zeros.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM when it cannot be backed.
    fn back(&self, offset: u64, bytes: u64, zero: bool) -> Result<(), Errno>;

    /// The descriptor that a program must not use or close, if one is kept.
    fn descriptor(&self) -> Option<i32>;
}

/// A region that might hold a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the link.
    pub kind: &'static str,
    /// File or device.
    pub place: PathBuf,
}

/// Everything on this machine that might hold a pool. Superblocks are the caller's to read.
#[must_use]
pub fn candidates() -> Vec<Candidate> {
    let mut found = Local::candidates();
    found.extend(Uml::candidates());
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
    Ok(Box::new(Local::open(place)?))
}
