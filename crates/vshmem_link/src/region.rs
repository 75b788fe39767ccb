//! A file or device that holds a pool, and what can go wrong with it.

use std::path::PathBuf;

use rustix::io::Errno;

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Device number of the file, to notice that a descriptor means something else by now.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Bytes.
    pub bytes: u64,
    /// User that the file belongs to.
    pub owner: u32,
    /// Its kind and mode, as fstat(2) has them.
    pub mode: u32,
}

impl Region {
    /// Whether it has the number of the same file.
    pub(crate) fn has_number_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Why a region cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// No such pool.
    #[error(
        "{path}: there is no such pool on this machine. `vshmem pool ls` shows those there are, `vshmem pool create NAME --size 1G` makes one"
    )]
    Absent {
        /// File or device.
        path: PathBuf,
    },
    /// Not allowed.
    #[error(
        "{path}: permission denied. Its owner can allow a group with `chgrp GROUP {path}` and `chmod 0660 {path}`, or all users with `chmod 0666 {path}`, or make the pool so, as in `vshmem pool create job7 --size 1G --mode 0660 --group hpc`"
    )]
    Denied {
        /// File or device.
        path: PathBuf,
    },
    /// Not allowed, for a reason of the device's.
    #[error("{path}: permission denied. {remedy}")]
    DeniedDevice {
        /// Device.
        path: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// Nothing that can hold a pool.
    #[error(
        "{path}: it is {found}, and a pool is a file or a device of its own. `vshmem pool ls` shows the pools that there are"
    )]
    NotAFile {
        /// What was named.
        path: PathBuf,
        /// What lies there instead.
        found: &'static str,
    },
    /// Called a user's private pool, and not that.
    #[error(
        "{path}: {why}, so it is not the private pool of user {uid}. Name another pool with --pool or VSHMEM_POOL, or have this file removed"
    )]
    NotPrivate {
        /// File.
        path: PathBuf,
        /// Whose it would have to be.
        uid: u32,
        /// What was found.
        why: String,
    },
    /// The hypervisor or the kernel has no room for another mapping.
    #[error("{path}: cannot {tried}: {errno}. {remedy}")]
    NoRoom {
        /// File or device.
        path: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        errno: Errno,
        /// What to do.
        remedy: &'static str,
    },
    /// Anything else.
    #[error("{path}: cannot {tried}: {errno}")]
    Failed {
        /// File or device.
        path: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        errno: Errno,
    },
}

impl RegionError {
    pub(crate) fn new(path: &std::path::Path, tried: &'static str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => Self::Absent { path },
            Errno::ACCESS | Errno::PERM => Self::Denied { path },
            Errno::ISDIR => Self::NotAFile { path, found: "a directory" },
            errno => Self::Failed { path, tried, errno },
        }
    }

    /// What the kernel has said, where no sentence of its own stands for it.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoRoom { errno, .. } | Self::Failed { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// With what the administrator can do for a user who is not allowed to use a device.
    pub(crate) fn with_remedy(self, remedy: impl Into<String>) -> Self {
        match self {
            Self::Denied { path } => Self::DeniedDevice { path, remedy: remedy.into() },
            error => error,
        }
    }
}
