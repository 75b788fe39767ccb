//! Link `xen`: pages of a pool domain, granted to this one.
//!
//! dom0 has made a domain that never runs and owns the pool's pages (`vshmem pool create --xen`),
//! and has granted each member all of them, as one row of references. A member, dom0 included, maps
//! them through `/dev/xen/gntdev`. What it has to know stands in XenStore, and in a file here for
//! those who may not read that (`announcement`).
//!
//! On a PV kernel a grant's mapping lives in the page table itself: a child that fork has made does
//! not have it, and the kernel can neither move it nor give it other rights nor bring a page back
//! that it was made to drop. So such a mapping is replaced rather than changed
//! ([`Changes::ByReplacement`]). The kernel cannot sleep on such memory. Event channels notify
//! other domains (`forwarder`).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection};
use vshmem_sync::Doorbell;

use super::announcement::{self, Announcement, DIRECTORY, path_of, refresh};
use super::doorbell::XenDoorbell;
use super::forwarder::Forwarder;
use super::gntdev::Gntdev;
use crate::device::Device;
use crate::link::{Capabilities, Changes, Link, LinkKind};
use crate::region::RegionError;

/// What kind of guest this is: PV, PVH or HVM.
const GUEST_TYPE: &str = "/sys/hypervisor/guest_type";

/// What distinguishes it from others: a pool is announced. For root, as XenStore has them now.
pub(crate) const KIND: LinkKind = LinkKind {
    name: "xen",
    is_device: |path| path.parent() == Some(Path::new(DIRECTORY)),
    open: |path| Ok(Box::new(Xen::open(path)?)),
    paths: || {
        refresh();
        announcement::paths()
    },
};

/// A pool granted by dom0.
#[derive(Debug)]
pub struct Xen {
    path: PathBuf,
    announcement: Announcement,
    gntdev: Gntdev,
    doorbell: Arc<XenDoorbell>,
    /// Whether the page tables are the hypervisor's.
    paravirtual: bool,
    /// The agent's.
    forwarder: Mutex<Option<Forwarder>>,
}

impl Xen {
    /// Opens a pool.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(path: &Path) -> Result<Self, RegionError> {
        // Read for its contents, and writable for whom the pool is.
        rustix::fs::accessat(
            rustix::fs::CWD,
            path,
            rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK,
            rustix::fs::AtFlags::EACCESS,
        )
        .map_err(|errno| RegionError::new(path, "open it", errno))?;
        let announcement = Announcement::read(path)
            .map_err(|errno| RegionError::new(path, "make sense of it", errno))?;
        Self::of(announcement)
    }

    /// The pool that is announced.
    pub(crate) fn of(announcement: Announcement) -> Result<Self, RegionError> {
        Ok(Self {
            path: path_of(&announcement.name),
            gntdev: Gntdev::open()?,
            doorbell: Arc::new(XenDoorbell::new(announcement.own, &announcement.name)),
            announcement,
            // One that does not say is as old as PV.
            paravirtual: std::fs::read_to_string(GUEST_TYPE)
                .map_or(true, |kind| kind.trim() == "PV"),
            forwarder: Mutex::new(None),
        })
    }
}

impl Xen {
    /// The hypervisor makes page table entries for grants that nothing can be executed from.
    fn may_map(&self, protection: Protection) -> Result<(), Errno> {
        if protection.execute && self.paravirtual { Err(Errno::PERM) } else { Ok(()) }
    }
}

impl Link for Xen {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn device(&self) -> &Device {
        self.gntdev.device()
    }

    fn grade(&self) -> &'static str {
        match self.doorbell.own_address() {
            Some(_) => "event channels",
            None => "grants",
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        u64::from(self.announcement.grants.pages) * 4096
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            changes: Changes::ByReplacement,
            children_inherit: !self.paravirtual,
            ..Capabilities::DEVICE
        }
    }

    fn map(&self, offset: u64, bytes: usize, protection: Protection) -> Result<Mapping, Errno> {
        self.may_map(protection)?;
        // SAFETY: no address is given.
        unsafe { self.gntdev.map(self.announcement.grants, offset, bytes, protection, None) }
    }

    unsafe fn map_at(
        &self,
        offset: u64,
        bytes: usize,
        protection: Protection,
        at: NonNull<u8>,
    ) -> Result<Mapping, Errno> {
        self.may_map(protection)?;
        // SAFETY: by this function's own contract.
        unsafe { self.gntdev.map(self.announcement.grants, offset, bytes, protection, Some(at)) }
    }

    fn no_room(&self) -> Option<&'static str> {
        Some(if self.paravirtual {
            "Xen lets a page be mapped 64 times at once in a PV guest, so 64 of its processes use a pool at most; end some, or have dom0 make another pool. \
             Where there are fewer, the guest's maptrack table is full: `vshmem pool show NAME --as xl` in dom0 prints a larger one for its configuration"
        } else {
            "The guest's maptrack table is full: end some processes that use the pool, or take the larger one for its configuration that `vshmem pool show NAME --as xl` prints in dom0"
        })
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::clone(&self.doorbell) as Arc<dyn Doorbell>)
    }

    fn doorbell_descriptor(&self) -> Result<Option<OwnedFd>, Errno> {
        let mut forwarder = self.forwarder.lock().unwrap_or_else(PoisonError::into_inner);
        if forwarder.is_none() {
            // Without the right to it waiters look for themselves.
            *forwarder = Forwarder::start(&self.announcement).ok();
        }
        forwarder.as_ref().map(Forwarder::notices).transpose()
    }
}
