//! Creating and replacing files in a directory that may belong to another user.
//!
//! `--socket` may name a directory of another user's, who can put a link in place of anything in
//! it, and of the directory itself, between two steps of ours. So the directory is opened once, and
//! everything is done relative to the open descriptor; no link is followed; and what needs several
//! steps is made in a directory of this process's own in there, which no other user can write to,
//! and put in its place by one rename.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Entry {
    directory: OwnedFd,
    name: OsString,
}

/// A directory of this process's own, to make one file in. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    entry: &'a Entry,
    directory: OwnedFd,
    name: String,
}

/// What the file in a draft is called.
const FILE: &str = "file";

impl Entry {
    /// Opens the directory that `path` is in.
    pub fn of(path: &Path) -> Result<Self, Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        Ok(Self { directory, name })
    }

    /// What lies there; a link is a link.
    pub fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// A path to it by way of the open directory, for calls that take nothing else. It is short.
    pub fn path(&self) -> PathBuf {
        within(&self.directory, &self.name)
    }

    /// Reads a file of this user's or of root's, which others cannot write to. `None`: there is no
    /// such file, or it is longer.
    pub fn read(&self, longest: u64) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let me = rustix::process::geteuid().as_raw();
        let trusted = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && [0, me].contains(&stat.st_uid)
            && stat.st_mode & 0o022 == 0;
        if !trusted {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(longest + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= longest).then_some(bytes)
    }

    /// Puts a file with that text there, in one step, for this user to write and for all to read.
    pub fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let draft = Draft::new(self)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&draft.directory, FILE, flags, mode)?;
        File::from(file).write_all(bytes)?;
        Ok(draft.publish()?)
    }

    /// Removes what lies there, if it is `wanted`.
    pub fn remove(&self, wanted: impl FnOnce(&Stat) -> bool) {
        if self.stat().is_ok_and(|stat| wanted(&stat)) {
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

fn within(directory: &OwnedFd, name: impl AsRef<OsStr>) -> PathBuf {
    let directory = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Path::new(&directory).join(name.as_ref())
}

impl<'a> Draft<'a> {
    /// Makes a directory of its own beside the entry, which no other user can write to.
    ///
    /// # Errors
    /// What mkdir(2) and open(2) give.
    pub fn new(entry: &'a Entry) -> Result<Self, Errno> {
        let name = format!(".vshmem-{:016x}", unguessable());
        rustix::fs::mkdirat(&entry.directory, &name, Mode::RWXU)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || -> Result<OwnedFd, Errno> {
            let directory = rustix::fs::openat(&entry.directory, &name, flags, Mode::empty())?;
            // It is the one that was just made, and not one that was put in its place.
            let stat = rustix::fs::fstat(&directory)?;
            let own = stat.st_uid == rustix::process::geteuid().as_raw()
                && stat.st_mode & 0o777 & !0o700 == 0;
            if own { Ok(directory) } else { Err(Errno::PERM) }
        };
        match open() {
            Ok(directory) => Ok(Self { entry, directory, name }),
            Err(errno) => {
                let _ = rustix::fs::unlinkat(&entry.directory, &name, AtFlags::REMOVEDIR);
                Err(errno)
            }
        }
    }

    /// A path of the file, for bind(2).
    pub fn path(&self) -> PathBuf {
        within(&self.directory, FILE)
    }

    /// stat(2) of the socket in it.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, FILE, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// chown(2) of the socket in it. `None` leaves an id as it is.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn chown(&self, owner: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
        let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
        rustix::fs::chownat(&self.directory, FILE, owner, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Only this process's user has been able to put a link there.
    pub fn chmod(&self, mode: u32) -> Result<(), Errno> {
        rustix::fs::chmodat(&self.directory, FILE, Mode::from_raw_mode(mode), AtFlags::empty())
    }

    /// Puts the file in its place, in one step.
    pub fn publish(self) -> Result<(), Errno> {
        rustix::fs::renameat(&self.directory, FILE, &self.entry.directory, &self.entry.name)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.directory, FILE, AtFlags::empty());
        let _ = rustix::fs::unlinkat(&self.entry.directory, &self.name, AtFlags::REMOVEDIR);
    }
}

/// A number that cannot be known ahead.
fn unguessable() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_no_link_is_followed() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = elsewhere.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        let path = directory.path().join("record");
        let entry = Entry::of(&path).unwrap();
        for link in ["record", "record.new", "file"] {
            symlink(&precious, directory.path().join(link)).unwrap();
        }
        assert_eq!(entry.read(100), None, "a link was followed");
        entry.write(b"first").unwrap();
        entry.write(b"second").unwrap();
        assert_eq!(entry.read(100).unwrap(), b"second");
        assert_eq!(entry.read(5), None, "longer than was asked");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "a draft is left");
        // What the path means by now is another directory.
        std::fs::rename(directory.path(), directory.path().with_extension("moved")).unwrap();
        symlink(elsewhere.path(), directory.path()).unwrap();
        entry.write(b"third").unwrap();
        entry.remove(|_| true);
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        std::fs::remove_file(directory.path()).unwrap();
        std::fs::rename(directory.path().with_extension("moved"), directory.path()).unwrap();
        assert!(entry.stat().is_err());
    }

    #[test]
    fn what_others_can_write_to_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        let entry = Entry::of(&path).unwrap();
        entry.write(b"text").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        assert_eq!(entry.read(100), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(entry.read(100).is_some());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(61_773), None).unwrap();
            assert_eq!(entry.read(100), None);
        }
    }
}
