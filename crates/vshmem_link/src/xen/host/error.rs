//! Why a pool domain cannot be made, found or changed.

use std::io;

use rustix::io::Errno;

use super::control;
use crate::region::RegionError;

/// Why a pool domain cannot be made, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum XenError {
    /// Not dom0, or not Xen.
    #[error(
        "this machine cannot make Xen domains: {device}: {errno}. Pools for Xen guests are made in dom0, as root, with the modules xen-privcmd, xen-gntdev and xen-evtchn loaded and XenStore running; `xl info` shows whether Xen runs"
    )]
    NotDom0 {
        /// What was opened.
        device: &'static str,
        /// What came back.
        errno: Errno,
    },
    /// Another hypervisor release.
    #[error(
        "this is Xen {}.{}, and this release of vshmem makes domains on Xen {} only: the interface changes with each of Xen's releases", found.0, found.1, control::known_releases()
    )]
    Release {
        /// The hypervisor's.
        found: (u32, u32),
    },
    /// It does not fit.
    #[error("{0}")]
    GrantTableSize(String),
    /// There is one already.
    #[error("it exists already, as Xen domain {domid}")]
    Exists {
        /// Its pool domain.
        domid: u16,
    },
    /// The hypervisor has no memory.
    #[error(
        "Xen has given {given} of {wanted} pages and has no more ({errno}). Take a smaller --size, end a guest, or lower dom0's share: `xl info` shows free_memory, dom0_mem= on Xen's command line keeps dom0 from taking all"
    )]
    Memory {
        /// Pages wanted.
        wanted: u32,
        /// Pages given.
        given: usize,
        /// What came back.
        errno: Errno,
    },
    /// No slot for another member.
    #[error(
        "all {slots} slots of the pool are taken, so domain {domid} cannot become a member. Create the pool with more --slots"
    )]
    Full {
        /// Slots there are.
        slots: u32,
        /// Who wanted one.
        domid: u16,
    },
    /// XenStore.
    #[error("XenStore: {0}")]
    Store(#[from] io::Error),
    /// The link in dom0.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The hypervisor or the kernel.
    #[error("cannot {tried}: {errno}")]
    Failed {
        /// What was tried.
        tried: &'static str,
        /// What came back.
        errno: Errno,
    },
}

impl XenError {
    /// Whether the same may work a moment later: XenStore's daemon did not answer in time.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

pub(super) fn failed(tried: &'static str) -> impl Fn(Errno) -> XenError {
    move |errno| XenError::Failed { tried, errno }
}
