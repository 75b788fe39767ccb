//! A file that is not seen before it is whole.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

/// A file that has no name yet: it is not opened half made, and it is gone if this process dies.
pub struct Draft {
    pub file: File,
    /// Its temporary name, where the file system has no files without.
    name: Option<PathBuf>,
}

impl Draft {
    /// A new file that is to have the name `path`.
    pub fn new(path: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let directory = path.parent().unwrap_or(Path::new("."));
        match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
            Ok(file) => return Ok(Self { file, name: None }),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            }
            Err(error) => return Err(error),
        }
        let name = path.with_file_name(format!(".draft-{}", uuid::Uuid::new_v4()));
        let file = options.create_new(true).open(&name)?;
        Ok(Self { file, name: Some(name) })
    }

    /// Gives it its name. A link, unlike a rename, does not replace a pool that another process
    /// made meanwhile.
    pub fn publish(&self, path: &Path) -> Result<(), Errno> {
        let itself = || PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let from = self.name.clone().unwrap_or_else(itself);
        rustix::fs::linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}
