//! What a pool is to be, and why it cannot be made.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use vshmem_wire::{Geometry, GeometryError, Layout, NODE_RANGES, PAGE_BYTES};

use super::huge_pages::HugePages;
use super::nodes::Placement;
use super::remedy;
use crate::error::FindError;
use crate::memory::Memory;
use crate::pool_name::valid_name;
use crate::quoted::quoted;

/// What a pool is to be.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// Name: letters, digits, `-`, `_` and `.`, at most 48.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Mode of the file.
    pub mode: u32,
    /// Group of the file.
    pub group: Option<u32>,
    /// Bytes of a huge page, for a pool on hugetlbfs.
    pub huge_page: Option<u64>,
    /// Where its pages are to lie; `None`: anywhere.
    pub placement: Option<Placement>,
    /// Changes to the limits, name and value.
    pub limits: Vec<(String, u64)>,
    /// Seconds of silence until automatic eviction; 0: never.
    pub evict_after: u64,
    /// Back all memory now, so that nothing can fail later. Guests need it: they cannot back.
    pub backed: bool,
    /// With a label in front, for guests that get it as an nvdimm or virtio-pmem.
    pub dax: bool,
    /// Bytes of free memory that agents keep zeroed ahead of demand; as many are touched now.
    pub prepare: u64,
    /// Its UUID; `None`: a new one.
    pub uuid: Option<[u8; 16]>,
}

/// Why a pool cannot be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Bad name.
    #[error(
        "pool name {0:?}: use 1 to 48 letters, digits, '-', '_' or '.', not beginning with '.', as in `vshmem pool create job7 --size 1G`"
    )]
    Name(String),
    /// There is one already.
    #[error("pool {name}: it exists already ({}). Remove it first with `vshmem pool rm {name}`, or take another name", path.display())]
    Exists {
        /// The name.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// Counts do not fit.
    #[error("pool {name}: {error}. {}", remedy::possible(name, *bytes, error))]
    Geometry {
        /// The name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
        /// What does not fit.
        error: GeometryError,
    },
    /// No such limit.
    #[error("limit {0:?}: there is no such limit. The limits are {names}", names = limit_names())]
    Limit(String),
    /// More is to be prepared than there is.
    #[error(
        "pool {name}: {asked} bytes are to be prepared, and it has {most} for segments. {}", remedy::prepared(name, *bytes, *most)
    )]
    Prepare {
        /// The name.
        name: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes wanted.
        asked: u64,
        /// Bytes there are.
        most: u64,
    },
    /// A file that was named cannot become a pool.
    #[error(
        "pool {name}: {} cannot become a pool: {found}. It must be a regular file of {bytes} bytes, all of them zeros. {}", path.display(), usable(name, path, *bytes)
    )]
    File {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: &'static str,
        /// Bytes that it must have.
        bytes: u64,
    },
    /// No room.
    #[error("pool {name}: {bytes} bytes cannot be backed at {} ({errno}). {}", path.display(), remedy::room(name, *bytes, path))]
    Room {
        /// The name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
        /// Its file.
        path: PathBuf,
        /// What came back.
        errno: Errno,
    },
    /// Its pages cannot lie there.
    #[error(
        "pool {name}: its pages cannot lie on node {nodes} ({errno}). `cat /sys/devices/system/node/has_memory` shows the nodes that have memory"
    )]
    Nodes {
        /// The name.
        name: String,
        /// The nodes that were asked for.
        nodes: String,
        /// What came back.
        errno: Errno,
    },
    /// The data pages cannot be cut up so.
    #[error(
        "pool {name}: it cannot have a range of pages on each of {} nodes: a pool has at most {NODE_RANGES} ranges, and each needs at least {} in addition to the tables. Take a larger --size, or put pages on these nodes in turn: `--numa interleave:{}`", nodes.len(), size(*unit), list(nodes)
    )]
    Cut {
        /// The name.
        name: String,
        /// Nodes that were asked for.
        nodes: Vec<u32>,
        /// Bytes of the smallest range.
        unit: u64,
    },
    /// Too few huge pages are reserved.
    #[error("{}", remedy::huge_pages(name, *bytes, *page, *node, found, Memory::now()))]
    HugePages {
        /// The name.
        name: String,
        /// Bytes wanted, on the node.
        bytes: u64,
        /// Bytes of a page.
        page: u64,
        /// The node that has too few; `None`: the whole machine.
        node: Option<u32>,
        /// What there was before.
        found: HugePages,
    },
    /// A file so long is not allowed.
    #[error(
        "pool {name}: its file would have {bytes} bytes, and the limit on the size of files (ulimit -f) is below. Raise it with `ulimit -f unlimited`, or take a smaller --size"
    )]
    FileLimit {
        /// The name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
    },
    /// Not in a domain of Xen's.
    #[error("pool {name}: {error}")]
    Xen {
        /// The name.
        name: String,
        /// Why not.
        error: vshmem_link::XenError,
    },
    /// Another file than the one that was looked at.
    #[error(
        "pool {name}: another file replaced {} during this command. It was not removed. Look at it with `vshmem pool show {}`, and remove it if it is not needed", path.display(), path.display()
    )]
    Replaced {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// As `Replaced`, and a third file has come to its place since.
    #[error(
        "pool {name}: another file replaced {path} during this command. It was kept and is now {kept}; a third file is at {path}. Look at both with `vshmem pool show {kept}` and `vshmem pool show {path}`, and remove what is not needed", path = path.display(), kept = kept.display()
    )]
    Kept {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// Where the file is that came to its place.
        kept: PathBuf,
    },
    /// Anything else.
    #[error("pool {name}: cannot {tried} {}: {error}. {}", path.display(), directory_of(path))]
    Failed {
        /// The name.
        name: String,
        /// Its file.
        path: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        error: std::io::Error,
    },
    /// Not there.
    #[error(transparent)]
    Find(#[from] FindError),
}

/// What to do about the directory of a file that cannot be made.
fn directory_of(path: &Path) -> String {
    let directory = path.parent().unwrap_or(path);
    let shown = quoted(&directory.to_string_lossy());
    match directory.is_dir() {
        true => format!("`ls -ld {shown}` shows who may make files there"),
        false => format!("`mkdir -p {shown}` makes its directory"),
    }
}

/// What makes a pool of that size, in this file where that can be.
fn usable(name: &str, path: &Path, bytes: u64) -> String {
    let shown = quoted(&path.to_string_lossy());
    if path.is_file() {
        return format!(
            "Where nothing in it is needed, `truncate -s 0 {shown} && truncate -s {bytes} {shown}` makes it so"
        );
    }
    format!("`vshmem pool create {name} --size {bytes}` makes the pool in a file of its own")
}

/// A size in the largest unit that has it whole.
fn size(bytes: u64) -> String {
    let shift = [30, 20].into_iter().find(|shift| bytes.is_multiple_of(1 << shift)).unwrap_or(10);
    format!("{} {}", bytes >> shift, ["KiB", "MiB", "GiB"][shift / 10 - 1])
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Names of the limits that can be set, from the one table of limits.
fn limit_names() -> String {
    let names = Geometry::LIMITS.iter().filter(|limit| limit.is_option).map(|limit| limit.name);
    names.collect::<Vec<_>>().join(" ")
}

fn set_limit(geometry: &mut Geometry, name: &str, value: u64) -> Result<(), CreateError> {
    let is_option = Geometry::LIMITS.iter().any(|limit| limit.is_option && limit.name == name);
    if is_option && geometry.set(name, value) {
        return Ok(());
    }
    Err(CreateError::Limit(name.to_owned()))
}

/// Counts and places of what is asked for, which is then known to make sense.
pub fn layout_of(request: &CreateRequest) -> Result<(Geometry, Layout), CreateError> {
    let name = &request.name;
    if !valid_name(name) {
        return Err(CreateError::Name(name.clone()));
    }
    let refused = |error| CreateError::Geometry { name: name.clone(), bytes: request.bytes, error };
    let mut geometry = Geometry::for_size(request.bytes).map_err(refused)?;
    for (limit, value) in &request.limits {
        set_limit(&mut geometry, limit, *value)?;
    }
    geometry.fit_pages(request.bytes).map_err(refused)?;
    let layout = geometry.layout().map_err(refused)?;
    let most = geometry.pages * PAGE_BYTES;
    if request.prepare > most {
        let (name, bytes) = (name.clone(), request.bytes);
        return Err(CreateError::Prepare { name, bytes, asked: request.prepare, most });
    }
    Ok((geometry, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_that_an_error_names_can_be_set_and_no_other() {
        let mut geometry = Geometry::for_size(64 << 20).unwrap();
        let refused = set_limit(&mut geometry, "pages", 5).unwrap_err().to_string();
        let names = refused.split_once("The limits are ").unwrap().1;
        for name in names.split(' ') {
            set_limit(&mut geometry, name, 77).unwrap();
        }
        assert_eq!((geometry.semvmx, geometry.shmall), (77, 77));
        assert!(!names.contains("pages"), "{names}");
    }

    #[test]
    fn ranges_that_do_not_fit_are_answered_with_the_nodes_and_the_size_of_a_page() {
        let said = |unit| {
            let nodes = vec![0, 2];
            CreateError::Cut { name: "p".into(), nodes, unit }.to_string()
        };
        assert!(said(4096).contains("at least 4 KiB"), "{}", said(4096));
        assert!(said(2 << 20).contains("at least 2 MiB"), "{}", said(2 << 20));
        assert!(said(1 << 30).contains("at least 1 GiB"), "{}", said(1 << 30));
        assert!(said(4096).ends_with("`--numa interleave:0,2`"), "{}", said(4096));
    }
}
