//! Which links there are, and which of them a region belongs to.

use std::path::Path;

use crate::link::{Candidate, Link, LinkKind};
use crate::region::RegionError;
use crate::{dax, ivshmem, local, uml, xen};

/// Links whose devices are recognised by looking at them. What none of them recognises is a file.
const DEVICES: [LinkKind; 4] = [uml::KIND, ivshmem::KIND, dax::KIND, xen::KIND];

/// Everything that this machine was given and that might hold a pool. Superblocks are the caller's
/// to read.
#[must_use]
pub fn devices() -> Vec<Candidate> {
    let of = |kind: LinkKind| {
        (kind.paths)().into_iter().map(move |path| Candidate { kind: kind.name, path })
    };
    DEVICES.into_iter().flat_map(of).collect()
}

/// Opens a region by its file or device.
///
/// # Errors
/// Says what was tried, what came back, and what to do.
pub fn open(path: &Path) -> Result<Box<dyn Link>, RegionError> {
    let kind = DEVICES.into_iter().find(|kind| (kind.is_device)(path));
    (kind.unwrap_or(local::KIND).open)(path)
}
