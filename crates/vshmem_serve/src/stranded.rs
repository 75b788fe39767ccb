//! Guests whose server was restarted: QEMU cannot reconnect.
//!
//! They keep the memory and continue. No other domain can notify them, they learn of no newcomers,
//! and no socket tells of their end. Their processes do.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use vshmem_link::{MappedFile, process_start};

use crate::record::RecordedPeer;

/// Whether a process has a file mapped. Only then is its end the end of a guest: the process that
/// made the connection may have handed it on, as a manager of virtual machines does.
pub(crate) fn has_mapped(pid: u32, file: &File) -> bool {
    if pid == 0 {
        return false;
    }
    let Ok(meta) = file.metadata() else { return false };
    MappedFile::new(meta.dev(), meta.ino()).is_mapped_by(pid)
}

/// A guest without a server.
#[derive(Debug)]
pub(crate) struct Stranded {
    pub peer: RecordedPeer,
    /// Becomes readable when its process ends.
    pub process: OwnedFd,
}

impl Stranded {
    /// Watches it from now on; `None` when its process has ended, or cannot be identified.
    pub fn watch(peer: RecordedPeer) -> Option<Self> {
        let pid = i32::try_from(peer.pid).ok().and_then(Pid::from_raw)?;
        // The descriptor first: from then on the pid cannot mean another process.
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let now = process_start(peer.pid);
        (now.abs_diff(peer.start) <= 1).then_some(Self { peer, process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_file_mapped_is_known() {
        let me = std::process::id();
        // The test itself is a file that this process has mapped.
        assert!(has_mapped(me, &File::open("/proc/self/exe").unwrap()));
        assert!(!has_mapped(me, &File::open("/proc/self/status").unwrap()));
        assert!(!has_mapped(0, &File::open("/proc/self/exe").unwrap()));
    }
}
