//! Where, and as whom, a process runs.
//!
//! The program may be anything, and have become anything since it began: chrooted into a directory
//! that another process fills, another user, in another namespace. What a path means there, the
//! dynamic linker's above all, is not what it meant. So an agent is started only while root,
//! namespaces and user are those of the time when this library was loaded.

#![allow(unsafe_code)] // the auxiliary vector

use std::sync::OnceLock;

/// Device and inode number.
pub type Identity = (u64, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Surroundings {
    root: Identity,
    mounts: Identity,
    users: Identity,
    /// Where its children's pids count.
    pids: Identity,
    /// Real and effective user and group.
    ids: [u32; 4],
}

impl Surroundings {
    /// As they are now, for such a user; `None` where they are not known.
    fn of(ids: [u32; 4]) -> Option<Self> {
        // The call by which the dynamic linker looks at files: a filter that lets programs start
        // lets this.
        let identity = |path| {
            let stat = rustix::fs::stat(path).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        Some(Self {
            root: identity(c"/")?,
            mounts: identity(c"/proc/self/ns/mnt")?,
            users: identity(c"/proc/self/ns/user")?,
            pids: identity(c"/proc/self/ns/pid_for_children")?,
            ids,
        })
    }

    fn now() -> Option<Self> {
        Self::of([
            rustix::process::getuid().as_raw(),
            rustix::process::geteuid().as_raw(),
            rustix::process::getgid().as_raw(),
            rustix::process::getegid().as_raw(),
        ])
    }

    /// As they were when the program began.
    fn at_load() -> Option<Self> {
        let kinds = [libc::AT_UID, libc::AT_EUID, libc::AT_GID, libc::AT_EGID];
        // SAFETY: reads what the kernel has given the program, without asking it again.
        Self::of(kinds.map(|kind| unsafe { libc::getauxval(kind) } as u32))
    }
}

static AT_LOAD: OnceLock<Option<Surroundings>> = OnceLock::new();

/// To be called when the library is loaded: what is so now is trusted.
pub fn remember_surroundings() {
    AT_LOAD.get_or_init(Surroundings::at_load);
}

/// Whether the process is still where and who it was.
pub fn are_as_at_load() -> bool {
    AT_LOAD.get().is_some_and(|then| then.is_some() && Surroundings::now() == *then)
}
