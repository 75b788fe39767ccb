//! Finding pools: by name, through every link.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vshmem_ipc::{OpenError, Pool};
use vshmem_link::PRIVATE_PREFIX;
use vshmem_link::{Candidate, Link, Local, RegionError};
use vshmem_wire::{Layout, Superblock};

use crate::error::FindError;

/// A pool on this machine.
#[derive(Debug)]
pub struct Listing {
    /// Name of its link.
    pub kind: &'static str,
    /// How well it works here, where the link can be had in several ways; else "".
    pub grade: &'static str,
    /// File or device.
    pub path: PathBuf,
    /// What its superblock says, or why it cannot be read.
    pub found: Result<(Superblock, Layout), FindError>,
}

/// Reads and checks the superblock of a region.
///
/// # Errors
/// Says what is wrong with it.
pub fn identify(link: &dyn Link) -> Result<(Superblock, Layout), FindError> {
    let path = link.path().to_owned();
    let damaged = |error| FindError::Damaged { path: path.clone(), error };
    if link.bytes() < vshmem_wire::PAGE_BYTES {
        let needed = vshmem_wire::PAGE_BYTES;
        let mut magic = [0; 8];
        let read = link.read(0, &mut magic).unwrap_or(0);
        if magic != vshmem_wire::MAGIC && read == magic.len() {
            return Err(damaged(OpenError::Magic));
        }
        return Err(damaged(OpenError::Truncated { found: link.bytes(), needed }));
    }
    let mut page = vec![0; vshmem_wire::PAGE_BYTES as usize];
    let read = link.read(0, &mut page).map_err(|errno| RegionError::Failed {
        path: path.clone(),
        tried: "read it",
        errno,
    })?;
    Pool::identify(&page[..read.min(Pool::HEADER_BYTES)], link.bytes()).map_err(damaged)
}

/// Which users' pools are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The caller's and root's files, and what this machine was given as a device.
    Mine,
    /// All users'.
    Everybodys,
}

impl Whose {
    fn includes(self, owner: u32) -> bool {
        self == Self::Everybodys || is_trusted(owner)
    }
}

/// Whether a user's files are trusted as the caller's own are.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Every region on this machine that might be a pool.
#[must_use]
pub fn list(whose: Whose) -> Vec<Listing> {
    let mut rows: Vec<Listing> =
        Local::candidates().into_iter().map(|candidate| look_at_file(candidate, whose)).collect();
    rows.extend(list_devices());
    rows
}

/// Every device of this machine that might be a pool.
#[must_use]
pub fn list_devices() -> Vec<Listing> {
    vshmem_link::devices()
        .into_iter()
        .map(|candidate| listing(candidate.clone(), vshmem_link::open(&candidate.path)))
        .collect()
}

fn look_at_file(candidate: Candidate, whose: Whose) -> Listing {
    let path = candidate.path.clone();
    let not_asked = |owner| FindError::NotAsked { path: path.clone(), owner };
    // Before it is opened, and again when it is known what was opened.
    let owner = std::fs::symlink_metadata(&path).map(|meta| meta.uid());
    if let Ok(owner) = owner
        && !whose.includes(owner)
    {
        let (kind, grade) = (candidate.kind, "");
        return Listing { kind, grade, found: Err(not_asked(owner)), path: candidate.path };
    }
    let link = Local::open(&path).map(|link| Box::new(link) as Box<dyn Link>);
    let owner = link.as_ref().ok().and_then(|link| link.owner());
    let row = listing(candidate, link);
    match owner.filter(|owner| !whose.includes(*owner)) {
        Some(owner) => Listing { found: Err(not_asked(owner)), ..row },
        None => row,
    }
}

fn listing(candidate: Candidate, link: Result<Box<dyn Link>, RegionError>) -> Listing {
    let link = link.map_err(FindError::from);
    Listing {
        kind: candidate.kind,
        grade: link.as_ref().map_or("", |link| link.grade()),
        found: link.and_then(|link| identify(link.as_ref())),
        path: candidate.path,
    }
}

/// Opens the link of a pool, by name, or by path when there is a slash in it.
///
/// # Errors
/// Says whether there is none, or why it cannot be opened.
pub fn find(name: &str) -> Result<Box<dyn Link>, FindError> {
    if name.contains('/') {
        return Ok(vshmem_link::open(Path::new(name))?);
    }
    let file = Local::path_of(name, false);
    let huge = Local::path_of(name, true);
    for path in [file, huge] {
        match Local::open(&path) {
            Ok(link) => return Ok(Box::new(link)),
            Err(RegionError::Absent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Which pool a device holds is read from its memory. A device that cannot be read may be the
    // one that is meant; a device that holds something else is not.
    let mut unreadable = None;
    // The pool's name in a device's memory was written by its members. So a private pool, which
    // this user alone has, is never taken from a device.
    let devices =
        if name.starts_with(PRIVATE_PREFIX) { Vec::new() } else { vshmem_link::devices() };
    for candidate in devices {
        let identified = vshmem_link::open(&candidate.path)
            .map_err(FindError::from)
            .and_then(|link| identify(link.as_ref()).map(|(superblock, _)| (link, superblock)));
        match identified {
            Ok((link, superblock)) => {
                if superblock.name_bytes() == name.as_bytes() {
                    return Ok(link);
                }
            }
            Err(FindError::Damaged { error: OpenError::Magic, .. }) => {}
            // A device whose own name is the one asked for is the one that was meant.
            Err(error) if candidate.path.file_name() == Some(name.as_ref()) => return Err(error),
            Err(error) => unreadable = unreadable.or(Some(error)),
        }
    }
    Err(unreadable.unwrap_or_else(|| FindError::Unknown { name: name.to_owned() }))
}
