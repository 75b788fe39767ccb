//! Why a pool is not found, or cannot be used.

use std::path::PathBuf;

use vshmem_ipc::{JoinError, OpenError};
use vshmem_link::{Anonymous, RegionError};

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
    /// It is a file of another user's, and was not asked for.
    #[error("{}: it belongs to user {owner}, so it was not looked into", place.display())]
    NotAsked {
        /// File.
        place: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Its tables are too large to be looked at.
    #[error("{}: its tables have {bytes} bytes, and no more than {most} are looked at. `vshmem pool check NAME` maps them", place.display())]
    Large {
        /// File.
        place: PathBuf,
        /// Bytes they have.
        bytes: u64,
        /// Bytes that are read.
        most: u64,
    },
    /// What lies there is not a pool that this release can use.
    #[error("{}: {error}", place.display())]
    Damaged {
        /// File or device.
        place: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
}

/// Why a pool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be found or read.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be mapped.
    #[error("pool {0}")]
    Region(#[from] RegionError),
    /// It is not known whom it would be joined as.
    #[error(transparent)]
    Anonymous(#[from] Anonymous),
    /// It is no pool that another process uses.
    #[error(
        "pool {name}: {} is a copy of it: it was made as another file, or before this machine was booted or restored. Others may be using that one, so it cannot be joined. Use the pool itself, or remove the copy with `rm {}` and make a pool anew with `vshmem pool create`", place.display(), place.display()
    )]
    Copy {
        /// The pool.
        name: String,
        /// The file.
        place: PathBuf,
    },
    /// It cannot be joined.
    #[error("pool {name}: {error}")]
    Join {
        /// The pool.
        name: String,
        /// Why not.
        error: JoinError,
    },
}
