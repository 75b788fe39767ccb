//! Removing a pool's file: the host's privilege.
//!
//! The directory is opened once, so that no link on the way to it leads elsewhere a moment later.
//! The file is first given a name that no other process uses, then looked at, and removed only if
//! it is the right one: between a look at a name that others use and its removal, another file
//! could take that name. A user that may write in the directory could still interfere under the new
//! name, but only with files that it may remove itself. A process that is killed in between leaves
//! a file under such a name; the next one removes it.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use vshmem_link::{Local, Region};

use crate::create::CreateError;
use crate::error::FindError;

/// Removes a pool's file. Processes that have it mapped keep what they have.
///
/// # Errors
/// Says why not.
pub fn remove(name: &str) -> Result<PathBuf, CreateError> {
    remove_if(name, None)
}

/// As [`remove`], if it is the file that was looked at: another may have come to its place since.
///
/// # Errors
/// Says why not.
pub fn remove_seen(name: &str, seen: &Region) -> Result<PathBuf, CreateError> {
    remove_if(name, Some(seen))
}

/// The prefix of the names that files get before they are removed.
const ASIDE: &str = ".vshmem-removed.";

/// After this time, the process that has given a file such a name does not look at it any more.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(60);

fn remove_if(name: &str, seen: Option<&Region>) -> Result<PathBuf, CreateError> {
    let paths = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => [false, true].map(|huge| Local::path_of(name, huge)).to_vec(),
    };
    for path in paths {
        let removed = Entry::of(&path).and_then(|entry| entry.remove(seen));
        let name = name.to_owned();
        match removed {
            Ok(Removal::Done) => return Ok(path),
            Ok(Removal::Replaced) => return Err(CreateError::Replaced { name, path }),
            Ok(Removal::Kept(kept)) => {
                let kept = path.with_file_name(kept);
                return Err(CreateError::Kept { name, path, kept });
            }
            Err(Errno::NOENT) => {}
            Err(error) => {
                let error = error.into();
                return Err(CreateError::Failed { name, path, tried: "remove", error });
            }
        }
    }
    Err(FindError::Unknown { name: name.to_owned() }.into())
}

/// How a removal ended.
#[derive(Debug, PartialEq, Eq)]
enum Removal {
    /// The file is removed.
    Done,
    /// Another file was there, and is there still.
    Replaced,
    /// Another file was there. It could not get its name back, because a third file has that by
    /// now, and was left under this name.
    Kept(OsString),
}

/// A name in a directory that is held open.
#[derive(Debug)]
struct Entry<'a> {
    directory: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Entry<'a> {
    fn of(path: &'a Path) -> Result<Self, Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        Ok(Self { directory, name })
    }

    /// Removes the file of this name, if it is the one that was `seen`.
    fn remove(&self, seen: Option<&Region>) -> Result<Removal, Errno> {
        let Some(seen) = seen else {
            unlinkat(&self.directory, self.name, AtFlags::empty())?;
            return Ok(Removal::Done);
        };
        if !self.is_seen(self.name, seen)? {
            return Ok(Removal::Replaced);
        }
        let _ = self.remove_left_behind(LEFT_BEHIND_AFTER);
        let aside = OsString::from(format!("{ASIDE}{}", uuid::Uuid::new_v4()));
        self.rename(self.name, &aside)?;
        self.remove_aside(&aside, seen)
    }

    fn is_seen(&self, name: &OsStr, seen: &Region) -> Result<bool, Errno> {
        let now = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((now.st_dev, now.st_ino) == (seen.device, seen.inode))
    }

    /// Removes a file that was given the name `aside`, or gives it its own name again.
    fn remove_aside(&self, aside: &OsStr, seen: &Region) -> Result<Removal, Errno> {
        if self.is_seen(aside, seen)? {
            unlinkat(&self.directory, aside, AtFlags::empty())?;
            return Ok(Removal::Done);
        }
        if self.put_back(aside).is_ok() {
            return Ok(Removal::Replaced);
        }
        // There is another one by now, which is not to be lost either. Under the name that it has,
        // the next removal in this directory would take it for one that was left behind.
        let mut kept = self.name.to_owned();
        kept.push(format!(".kept-{}", uuid::Uuid::new_v4()));
        self.rename(aside, &kept)?;
        Ok(Removal::Kept(kept))
    }

    /// Removes pools that have been under a name of that kind for so long, as far as this user may.
    fn remove_left_behind(&self, after: Duration) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.directory, c".", flags, Mode::empty())?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let is_aside = entry.file_name().to_bytes().starts_with(ASIDE.as_bytes());
            if is_aside
                && self.is_left_behind(OsStr::from_bytes(entry.file_name().to_bytes()), after)?
            {
                let _ = unlinkat(&self.directory, entry.file_name(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Whether this is a pool that was given its name so long ago. Anything else is not ours.
    fn is_left_behind(&self, name: &OsStr, after: Duration) -> Result<bool, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(&self.directory, name, flags, Mode::empty()) else {
            return Ok(false);
        };
        let stat = fstat(&file)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = now.unwrap_or_default().as_secs().saturating_sub(stat.st_ctime as u64);
        let mut magic = [0; 8];
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && since >= after.as_secs()
            && rustix::io::pread(&file, &mut magic, 0)? == magic.len()
            && magic == vshmem_wire::MAGIC)
    }

    /// Gives a file a name that was made for it: there is no other of that name.
    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        renameat(&self.directory, from, &self.directory, to)
    }

    /// Gives a file that was put aside its own name again, unless there is another one by now.
    fn put_back(&self, aside: &OsStr) -> Result<(), Errno> {
        let (directory, flags) = (&self.directory, RenameFlags::NOREPLACE);
        match renameat_with(directory, aside, directory, self.name, flags) {
            // NFS and 9p have no such renaming.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.link_back(aside),
            result => result,
        }
    }

    /// As `put_back`, in two steps: a link is never made in another file's place.
    fn link_back(&self, aside: &OsStr) -> Result<(), Errno> {
        linkat(&self.directory, aside, &self.directory, self.name, AtFlags::empty())?;
        unlinkat(&self.directory, aside, AtFlags::empty())
    }
}

#[cfg(test)]
mod tests {
    use vshmem_link::Link;

    use super::*;

    #[test]
    fn a_file_that_has_come_to_the_place_of_the_one_that_was_looked_at_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vshmem.p");
        std::fs::write(&path, [0; 4096]).unwrap();
        let seen = Local::open(&path).unwrap();
        let file = seen.file().unwrap();
        let name = path.to_str().unwrap();
        let other = directory.path().join("other");
        std::fs::write(&other, "another's letters").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(matches!(remove_seen(name, &file), Err(CreateError::Replaced { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"another's letters");
        let file = Local::open(&path).unwrap().file().unwrap();
        remove_seen(name, &file).unwrap();
        assert!(!path.exists());
    }

    /// A directory with a pool in `pool`, its file as it was seen.
    fn directory_of_a_pool() -> (tempfile::TempDir, Region) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        std::fs::write(&path, [0; 4096]).unwrap();
        let seen = Local::open(&path).unwrap().file().unwrap();
        (directory, seen)
    }

    #[test]
    fn a_file_that_comes_in_the_very_moment_stays() {
        let (directory, seen) = directory_of_a_pool();
        let [path, kept, letters] =
            ["pool", "kept", "letters"].map(|name| directory.path().join(name));
        std::fs::hard_link(&path, &kept).unwrap();
        for turn in 0..3000 {
            std::fs::write(&letters, "somebody's letters").unwrap();
            let both = std::sync::Barrier::new(2);
            let removed = std::thread::scope(|scope| {
                let comes = scope.spawn(|| {
                    both.wait();
                    (0..turn % 300).for_each(|_| std::hint::spin_loop());
                    std::fs::rename(&letters, &path).unwrap();
                });
                both.wait();
                let removed = remove_seen(path.to_str().unwrap(), &seen);
                comes.join().unwrap();
                removed
            });
            let left = std::fs::read(&path);
            assert_eq!(left.ok().as_deref(), Some(&b"somebody's letters"[..]), "{removed:?}");
            std::fs::remove_file(&path).unwrap();
            std::fs::hard_link(&kept, &path).unwrap();
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 2, "nothing is left aside");
    }

    #[test]
    fn a_file_that_cannot_get_its_name_again_is_kept_under_another() {
        let (directory, seen) = directory_of_a_pool();
        let [path, aside] = ["pool", ".vshmem-removed.1"].map(|name| directory.path().join(name));
        // It stays, so that no other file gets its number.
        std::fs::rename(&path, directory.path().join("elsewhere")).unwrap();
        let another_pool = [&vshmem_wire::MAGIC[..], &[0; 4088]].concat();
        std::fs::write(&aside, &another_pool).unwrap();
        std::fs::write(&path, "somebody's letters").unwrap();
        let entry = Entry::of(&path).unwrap();
        let removed = entry.remove_aside(aside.file_name().unwrap(), &seen);
        let Ok(Removal::Kept(kept)) = removed else { panic!("{removed:?}") };
        // No later removal takes it for one that was left behind.
        entry.remove_left_behind(Duration::ZERO).unwrap();
        assert_eq!(std::fs::read(directory.path().join(&kept)).unwrap(), another_pool);
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's letters");
        assert!(!aside.exists());
    }

    /// As on NFS and 9p.
    #[test]
    fn a_file_gets_its_name_again_where_renaming_may_replace() {
        let (directory, _) = directory_of_a_pool();
        let [path, aside] = ["pool", "aside"].map(|name| directory.path().join(name));
        std::fs::rename(&path, &aside).unwrap();
        let entry = Entry::of(&path).unwrap();
        entry.link_back(aside.file_name().unwrap()).unwrap();
        assert!(path.exists() && !aside.exists());
        std::fs::write(&aside, "somebody's letters").unwrap();
        assert_eq!(entry.link_back(aside.file_name().unwrap()), Err(Errno::EXIST));
        assert_eq!(std::fs::read(&aside).unwrap(), b"somebody's letters");
    }

    #[test]
    fn what_a_killed_process_has_left_aside_is_removed_by_the_next() {
        let (directory, _) = directory_of_a_pool();
        let path = directory.path().join("pool");
        let [left, letters] = [1, 2].map(|nth| directory.path().join(format!("{ASIDE}{nth}")));
        std::fs::write(&left, [&vshmem_wire::MAGIC[..], &[0; 4088]].concat()).unwrap();
        std::fs::write(&letters, "somebody's letters").unwrap();
        let entry = Entry::of(&path).unwrap();
        // It has only just been put there.
        entry.remove_left_behind(LEFT_BEHIND_AFTER).unwrap();
        assert!(left.exists());
        entry.remove_left_behind(Duration::ZERO).unwrap();
        assert!(!left.exists() && letters.exists() && path.exists());
    }

    #[test]
    fn a_directory_that_has_become_a_link_leads_nowhere_else() {
        let (directory, seen) = directory_of_a_pool();
        let (other, _) = directory_of_a_pool();
        let way = directory.path().join("way");
        std::os::unix::fs::symlink(directory.path(), &way).unwrap();
        let path = way.join("pool");
        let entry = Entry::of(&path).unwrap();
        std::fs::remove_file(&way).unwrap();
        std::os::unix::fs::symlink(other.path(), &way).unwrap();
        assert_eq!(entry.remove(Some(&seen)), Ok(Removal::Done));
        assert!(!directory.path().join("pool").exists());
        assert!(other.path().join("pool").exists());
    }
}
