//! Finding pools: by name, through every link.

use std::path::{Path, PathBuf};

use vshmem_ipc::{OpenError, Pool};
use vshmem_link::{Link, RegionError};
use vshmem_mem::{Map, Protection};
use vshmem_wire::{Layout, Superblock};

/// What the name of a user's own pool begins with; the uid follows.
pub const PRIVATE_PREFIX: &str = "private-";

/// Why a pool is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No link has one of that name.
    #[error(
        "pool {name}: there is none of that name on this machine. `vshmem pool ls` shows those there are; the host makes one with `vshmem pool create {name} --size 1G`"
    )]
    Unknown {
        /// What was looked for.
        name: String,
    },
    /// A region of that name is there and cannot be opened.
    #[error("pool {0}")]
    Region(#[from] RegionError),
    /// What lies there is not a pool that this release can use.
    #[error("{}: {error}", place.display())]
    Damaged {
        /// File or device.
        place: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
}

/// A pool on this machine.
#[derive(Debug)]
pub struct Listing {
    /// Name of its link.
    pub kind: &'static str,
    /// How well it works here, where the link can be had in several ways; else "".
    pub grade: &'static str,
    /// File or device.
    pub place: PathBuf,
    /// What its superblock says, or why it cannot be read.
    pub found: Result<(Superblock, Layout), FindError>,
}

/// Reads and checks the superblock of a region.
///
/// # Errors
/// Says what is wrong with it.
pub fn identify(link: &dyn Link) -> Result<(Superblock, Layout), FindError> {
    let place = link.place().to_owned();
    let damaged = |error| FindError::Damaged { place: place.clone(), error };
    if link.bytes() < vshmem_wire::PAGE_BYTES {
        let needed = vshmem_wire::PAGE_BYTES;
        return Err(damaged(OpenError::Truncated { found: link.bytes(), needed }));
    }
    let page = vshmem_wire::PAGE_BYTES as usize;
    // SAFETY: no address is given, so nothing is replaced.
    #[allow(unsafe_code)]
    let mapping = unsafe { link.map(0, page, Protection::default(), None) }
        .map_err(|errno| RegionError::Failed { place: place.clone(), tried: "map it", errno })?;
    let mut header = vec![0; Pool::HEADER_BYTES];
    Map::of(mapping).read(0, &mut header).map_err(|_| damaged(OpenError::Magic))?;
    Pool::identify(&header, link.bytes()).map_err(damaged)
}

/// Every region on this machine that might be a pool.
#[must_use]
pub fn list() -> Vec<Listing> {
    vshmem_link::candidates()
        .into_iter()
        .map(|candidate| {
            let link = vshmem_link::open(&candidate.place).map_err(FindError::from);
            Listing {
                kind: candidate.kind,
                grade: link.as_ref().map_or("", |link| link.grade()),
                found: link.and_then(|link| identify(link.as_ref())),
                place: candidate.place,
            }
        })
        .collect()
}

/// Opens the link of a pool, by name, or by path when there is a slash in it.
///
/// # Errors
/// Says whether there is none, or why it cannot be opened.
pub fn find(name: &str) -> Result<Box<dyn Link>, FindError> {
    if name.contains('/') {
        return Ok(vshmem_link::open(Path::new(name))?);
    }
    let file = vshmem_link::Local::place_of(name, false);
    let huge = vshmem_link::Local::place_of(name, true);
    for place in [file, huge] {
        match vshmem_link::open(&place) {
            Ok(link) => return Ok(link),
            Err(RegionError::Absent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Devices are known by what lies in their memory. One that cannot be read may be the one that is
    // meant; one that holds something else is not.
    let mut unreadable = None;
    for candidate in vshmem_link::candidates() {
        if candidate.kind == "local" {
            continue;
        }
        let identified = vshmem_link::open(&candidate.place)
            .map_err(FindError::from)
            .and_then(|link| identify(link.as_ref()).map(|(superblock, _)| (link, superblock)));
        match identified {
            Ok((link, superblock)) => {
                let end = superblock.name.iter().position(|&byte| byte == 0);
                let used = end.unwrap_or(superblock.name.len());
                if &superblock.name[..used] == name.as_bytes() {
                    return Ok(link);
                }
            }
            Err(FindError::Damaged { error: OpenError::Magic, .. }) => {}
            // One that is called so is more likely to be meant than any other.
            Err(error) if candidate.place.file_name() == Some(name.as_ref()) => return Err(error),
            Err(error) => unreadable = unreadable.or(Some(error)),
        }
    }
    Err(unreadable.unwrap_or_else(|| FindError::Unknown { name: name.to_owned() }))
}
