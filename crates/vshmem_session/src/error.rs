//! Why a pool is not found, or cannot be used.

use std::path::{Path, PathBuf};

use vshmem_ipc::{JoinError, OpenError};
use vshmem_link::{Anonymous, Local, PRIVATE_PREFIX, RegionError};

use crate::memory::Memory;
use crate::pool_name::valid_name;
use crate::quoted::quoted;

/// Why a pool is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No link has one of that name.
    #[error("{}", unknown(name))]
    Unknown {
        /// What was looked for.
        name: String,
    },
    /// A region of that name is there and cannot be opened.
    #[error("pool {0}")]
    Region(#[from] RegionError),
    /// It is a file of another user's, and was not asked for.
    #[error("{}: it belongs to user {owner}, so it was not read", path.display())]
    NotAsked {
        /// File.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Its tables are too large to be looked at.
    #[error("{}: its tables have {bytes} bytes, and no more than {most} are read here. `vshmem pool check NAME` maps them", path.display())]
    Large {
        /// File.
        path: PathBuf,
        /// Bytes they have.
        bytes: u64,
        /// Bytes that are read.
        most: u64,
    },
    /// What lies there is not a pool that this release can use.
    #[error("{}: {error}{}", path.display(), remedy(path, error))]
    Damaged {
        /// File or device.
        path: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
}

/// The QEMU options that an emulated machine needs, for the user who starts it.
pub const ATOMIC_OPTIONS: &str = "`-smp 1,maxcpus=2` or more CPUs, and `-accel tcg,thread=multi`";

/// Why a pool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be found or read.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be mapped.
    #[error("pool {0}")]
    Region(#[from] RegionError),
    /// The identity of this process's domain is not known.
    #[error(transparent)]
    Anonymous(#[from] Anonymous),
    /// This machine is emulated, and its atomic operations are not atomic for others: changes would
    /// be lost, or done twice.
    #[error(
        "pool {}: QEMU emulates this machine (TCG) with room for one CPU, so its atomic operations are none for other machines and the host: tokens and messages of the pool would be lost or doubled. On the host, start QEMU with {ATOMIC_OPTIONS}", path.display()
    )]
    Atomics {
        /// File or device.
        path: PathBuf,
    },
    /// It is a copy of a pool, which no other process uses.
    #[error(
        "pool {name}: {} is a copy of the pool: it was made as another file, or before this machine was last booted or restored. Other processes may use the original, so the copy is refused. Use the original, or remove the copy with `rm {}` and make a pool anew with `vshmem pool create`", path.display(), path.display()
    )]
    Copy {
        /// The pool.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// It cannot be joined.
    #[error("pool {name}: {}", of_this_pool(name, error))]
    Join {
        /// The pool.
        name: String,
        /// Why not.
        error: JoinError,
    },
}

impl SessionError {
    /// The kernel's error, if the failure was about the pool's file or device.
    #[must_use]
    pub fn errno(&self) -> Option<vshmem_ipc::Errno> {
        match self {
            Self::Find(FindError::Region(error)) | Self::Region(error) => error.errno(),
            _ => None,
        }
    }
}

/// A name that no pool can have is not proposed for one.
fn unknown(name: &str) -> String {
    if !valid_name(name) {
        return format!(
            "pool {name:?}: no pool can have that name. `vshmem pool ls` shows those there are"
        );
    }
    let perhaps = spelled_otherwise(name)
        .map(|other| format!(" {other} is perhaps meant."))
        .unwrap_or_default();
    format!(
        "pool {name}: there is none of that name on this machine.{perhaps} `vshmem pool ls` shows those there are; the host makes one with `vshmem pool create {name} --size {}`",
        Memory::now().pool_size()
    )
}

/// A pool whose name differs in capital letters alone.
fn spelled_otherwise(name: &str) -> Option<String> {
    let sample = Local::path_of(name, false);
    let mut files = std::fs::read_dir(sample.parent()?).ok()?.flatten();
    files.find_map(|file| {
        let other = file.file_name().into_string().ok()?.strip_prefix("vshmem.")?.to_owned();
        (other.eq_ignore_ascii_case(name) && other != name && valid_name(&other)).then_some(other)
    })
}

/// Commands that name the pool which could not be joined.
fn of_this_pool(name: &str, error: &JoinError) -> String {
    error
        .to_string()
        .replace("`vshmem pool check`", &format!("`vshmem pool check {name}`"))
        .replace("`vshmem pool evict --dead`", &format!("`vshmem pool evict {name} DOMAIN --dead`"))
}

/// What to do about a region that is not a pool, or not one that can be used.
fn remedy(path: &Path, error: &OpenError) -> String {
    match error {
        OpenError::Processor => return String::new(),
        OpenError::Magic => return ". `vshmem pool ls` shows the pools that there are".into(),
        _ => {}
    }
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = file.strip_prefix("vshmem.");
    if let Some(name) = name.filter(|name| name.starts_with(PRIVATE_PREFIX)) {
        return format!(". `vshmem pool rm {name}` removes it; it is made again by itself");
    }
    match name {
        Some(name) if Local::path_of(name, false) == path || Local::path_of(name, true) == path => {
            format!(
                ". `vshmem pool rm {name}` removes it, and `vshmem pool create {name} --size {}` makes it again",
                Memory::now().pool_size()
            )
        }
        _ if path.starts_with("/sys") => ". `vshmem pool ls` shows the pools' devices".into(),
        _ if path.is_file() => {
            format!(". `rm {}` removes it", quoted(&path.to_string_lossy()))
        }
        _ => ". It is made again on the host: `vshmem pool ls` shows its name there".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_wrong_case_is_said_to_be_perhaps_meant() {
        let there = format!("Case{}", std::process::id());
        std::fs::write(Local::path_of(&there, false), "").unwrap();
        let said = unknown(&there.to_lowercase());
        let other = unknown("neitherthis");
        std::fs::remove_file(Local::path_of(&there, false)).unwrap();
        assert!(said.contains(&format!("{there} is perhaps meant")), "{said}");
        assert!(!other.contains("perhaps"), "{other}");
    }
}
