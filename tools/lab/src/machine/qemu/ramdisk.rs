//! The initial file system of guests that a firmware or a hypervisor boots: the binary that is PID
//! 1, the libraries that it needs, the modules that lead to the real root; or, where there is no
//! way to one, all that the guest has. An archive in the cpio format `newc` (Linux:
//! Documentation/driver-api/early-userspace).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cpio::newc;

use crate::error::{Doing, Result};
use crate::host::tool;
use crate::model::boot::{INIT, MODULES};

const DIRECTORY: u32 = 0o040_755;
pub(crate) const PROGRAM: u32 = 0o100_755;
/// For the root user's eyes.
pub(crate) const PRIVATE: u32 = 0o100_400;
const LINK: u32 = 0o120_777;
pub(crate) const FILE: u32 = 0o100_644;
const CHARACTERS: u32 = 0o020_600;

/// An archive under way.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<PathBuf>,
}

impl Archive {
    /// With a console, and modules that are loaded in their order.
    pub(crate) fn bootable(modules: &[(String, Vec<u8>)]) -> Self {
        let mut archive = Archive::default();
        archive.directory(Path::new("/dev"));
        archive.entry("/dev/console", CHARACTERS, (5, 1), &[]);
        archive.directory(Path::new(MODULES));
        for (at, (name, contents)) in modules.iter().enumerate() {
            archive.file(&Path::new(MODULES).join(format!("{at:03}-{name}")), FILE, contents);
        }
        archive
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let entry = newc::Builder::new(path.trim_start_matches('/'))
            .ino(self.entries)
            .mode(mode)
            .nlink(1)
            .rdev_major(device.0)
            .rdev_minor(device.1);
        let mut writer = entry.write(&mut self.bytes, contents.len() as u32);
        // Writing to memory does not fail.
        let _ = writer.write_all(contents).and_then(|()| writer.finish());
    }

    pub(crate) fn directory(&mut self, path: &Path) {
        if path == Path::new("/") || !self.directories.insert(path.to_owned()) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entry(&path.to_string_lossy(), DIRECTORY, (0, 0), &[]);
    }

    pub(crate) fn file(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entry(&path.to_string_lossy(), mode, (0, 0), contents);
    }

    /// What lies there among the host's files, under the same name.
    pub(crate) fn copy(&mut self, path: &Path) -> Result<()> {
        let contents = fs::read(path).doing(|| format!("read {path:?}"))?;
        self.file(path, PROGRAM, &contents);
        Ok(())
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &Path, target: &str) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entry(&path.to_string_lossy(), LINK, (0, 0), target.as_bytes());
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        // Writing to memory does not fail.
        let _ = newc::trailer(&mut self.bytes);
        self.bytes
    }
}

/// Makes the archive: `binary` is PID 1; the modules are loaded in their order.
pub(crate) fn make(binary: &Path, modules: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut archive = Archive::bootable(modules);
    let contents = fs::read(binary).doing(|| format!("read {binary:?}"))?;
    archive.file(Path::new(INIT), PROGRAM, &contents);
    for library in libraries(&[binary.to_owned()])? {
        archive.copy(&library)?;
    }
    Ok(archive.end())
}

/// What the dynamic linker loads for those programs, and the linker itself, each once.
pub(crate) fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let ldd = tool::find("ldd").unwrap_or_else(|| "ldd".into());
    // It fails if one of them is not dynamically linked, and lists the libraries of the others all
    // the same.
    let listed = Command::new(&ldd)
        .args(programs)
        .stderr(Stdio::null())
        .output()
        .doing(|| format!("run {ldd:?}"))?;
    Ok(paths(&String::from_utf8_lossy(&listed.stdout)).into_iter().collect())
}

fn paths(listed: &str) -> Vec<PathBuf> {
    listed
        .lines()
        // With several programs the name of each stands above its libraries, with a colon.
        .filter(|line| line.starts_with(char::is_whitespace))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_each_file_below_its_directories() {
        let mut archive = Archive::default();
        archive.file(Path::new("/lib/x86/libc.so.6"), PROGRAM, b"12345");
        archive.file(Path::new("/lib/x86/libm.so.6"), PROGRAM, b"");
        let bytes = archive.end();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let at = |name: &str| text.find(&format!("{name}\0")).unwrap();
        assert!(at("lib") < at("lib/x86") && at("lib/x86") < at("lib/x86/libc.so.6"));
        assert!(at("lib/x86/libm.so.6") < at("TRAILER!!!"));
        assert_eq!(text.matches("070701").count(), 5);
    }

    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        assert_eq!(paths(listed), ["/lib/x/libc.so.6", "/lib64/ld-linux.so.2"].map(PathBuf::from));
    }
}
