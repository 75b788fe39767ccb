//! Which processes have a file mapped, as /proc/PID/maps says.

use rustix::fs::{major, minor};
use rustix::io::Errno;
use vshmem_mem::MappedFileId;

/// How a mapping of a file is shown there.
#[derive(Debug)]
pub struct MappedFile {
    device: String,
    inode: String,
}

impl MappedFile {
    /// Of the file with these numbers.
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        let device = format!("{:02x}:{:02x}", major(device), minor(device));
        Self { device, inode: inode.to_string() }
    }

    /// Of what is mapped at an address of this process: of a device, too.
    ///
    /// # Errors
    /// What reading /proc/self/maps says; ENOENT when nothing of a file is there.
    pub fn at(address: usize) -> Result<Self, Errno> {
        let [device, inode] = MappedFileId::at(address)?.to_words();
        let device = format!("{:02x}:{:02x}", device >> 32, device & u64::from(u32::MAX));
        Ok(Self { device, inode: inode.to_string() })
    }

    /// Whether the process has it mapped; no where its maps may not be read.
    #[must_use]
    pub fn is_mapped_by(&self, pid: u32) -> bool {
        self.mapped_by(pid).unwrap_or(false)
    }

    /// The same; `None` where its maps may not be read.
    #[must_use]
    pub fn mapped_by(&self, pid: u32) -> Option<bool> {
        // Paths of other mappings may be any bytes.
        let maps = match std::fs::read(format!("/proc/{pid}/maps")) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
            read => read.unwrap_or_default(),
        };
        let mut lines = maps.split(|byte| *byte == b'\n');
        Some(lines.any(|line| self.is_line(&String::from_utf8_lossy(line))))
    }

    /// `ADDRESSES MODE OFFSET DEVICE INODE PATH`
    fn is_line(&self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some(&self.device) && words.next() == Some(&self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_by_device_and_inode() {
        let mapped = MappedFile { device: "00:18".into(), inode: "77".into() };
        for (line, is) in [
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7", true),
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7 (deleted)", true),
            ("7f00-7f01 rw-s 00000000 00:19 77   /tmp/x", false),
            ("7f00-7f01 rw-s 00000000 00:18 78", false),
            ("7f00-7f01 rw-p 00000000 00:00 0 ", false),
        ] {
            assert_eq!(mapped.is_line(line), is, "{line}");
        }
    }
}
