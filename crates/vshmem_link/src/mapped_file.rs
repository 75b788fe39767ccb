//! Which processes have a file mapped, as /proc/PID/maps says.

use rustix::io::Errno;
use vshmem_mem::MappedFileId;

/// A file, as mappings are shown there to be of it.
#[derive(Debug)]
pub struct MappedFile(MappedFileId);

impl MappedFile {
    /// Of the file with these numbers.
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        Self(MappedFileId::new(device, inode))
    }

    /// Of what is mapped at an address of this process: of a device, too.
    ///
    /// # Errors
    /// What reading /proc/self/maps says; ENOENT when nothing of a file is there.
    pub fn at(address: usize) -> Result<Self, Errno> {
        MappedFileId::at(address).map(Self)
    }

    /// Whether the process has it mapped; no where its maps may not be read.
    #[must_use]
    pub fn is_mapped_by(&self, pid: u32) -> bool {
        self.mapped_by(pid).unwrap_or(false)
    }

    /// The same; `None` where its maps may not be read.
    #[must_use]
    pub fn mapped_by(&self, pid: u32) -> Option<bool> {
        let maps = match std::fs::read(format!("/proc/{pid}/maps")) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
            read => read.unwrap_or_default(),
        };
        let mut lines = maps.split(|byte| *byte == b'\n');
        Some(lines.any(|line| self.is_line(line)))
    }

    fn is_line(&self, line: &[u8]) -> bool {
        MappedFileId::of_line(line) == Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn a_mapping_is_known_by_device_and_inode() {
        let mapped = MappedFile::new(makedev(0, 0x18), 77);
        for (line, is) in [
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7", true),
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7 (deleted)", true),
            ("7f00-7f01 rw-s 00000000 00:19 77   /tmp/x", false),
            ("7f00-7f01 rw-s 00000000 00:18 78", false),
            ("7f00-7f01 rw-p 00000000 00:00 0 ", false),
        ] {
            assert_eq!(mapped.is_line(line.as_bytes()), is, "{line}");
        }
    }
}
