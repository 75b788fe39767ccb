//! The file in which a domain keeps what XenStore says about a pool: `/run/vshmem/xen/NAME`.
//!
//! XenStore is root's alone. So whatever root does with pools brings these files up to date, and
//! all other users read them. Mode and group are those that the pool was made with; they decide who
//! may use the pool, together with those of `/dev/xen/gntdev`. The file is also what the pool's
//! place is called, and what its agent locks.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::gntdev::Grants;
use super::keys;
use super::store::Store;

/// Where the files are.
pub const DIRECTORY: &str = "/run/vshmem/xen";
/// More than one takes.
const LONGEST: u64 = 4096;

/// What is announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The pool's name.
    pub name: String,
    /// Its pages, as granted to this domain.
    pub grants: Grants,
    /// This domain's id.
    pub own: u16,
    /// Mode of the file.
    pub mode: u32,
    /// Group of the file.
    pub group: u32,
}

/// The file of a pool.
#[must_use]
pub fn path_of(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

impl Announcement {
    /// What XenStore says about a pool, if that is valid.
    pub fn from_store(store: &mut Store, own: u16, name: &str) -> std::io::Result<Option<Self>> {
        let directory = keys::membership(None, name);
        let mut number = |key: &str| store.number(&format!("{directory}/{key}"));
        let (domid, first, pages) = (number("pool-dom")?, number("ref")?, number("pages")?);
        let (mode, group) = (number("mode")?.unwrap_or(0o600), number("group")?.unwrap_or(0));
        let (Some(domid), Some(first), Some(pages)) = (domid, first, pages) else {
            return Ok(None);
        };
        let Ok(domid) = u16::try_from(domid) else { return Ok(None) };
        Ok(Some(Self {
            name: name.to_owned(),
            grants: Grants { domid, first, pages },
            own,
            mode: mode & 0o666,
            group,
        }))
    }

    fn text(&self) -> String {
        format!(
            "pool-dom {}\nref {}\npages {}\nown {}\n",
            self.grants.domid, self.grants.first, self.grants.pages, self.own
        )
    }

    fn parse(name: &str, text: &str) -> Option<Self> {
        let value =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        Some(Self {
            name: name.to_owned(),
            grants: Grants {
                domid: value("pool-dom")?.parse().ok()?,
                first: value("ref")?.parse().ok()?,
                pages: value("pages")?.parse().ok()?,
            },
            own: value("own")?.parse().ok()?,
            mode: 0,
            group: 0,
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// EACCES for one that is not root's; EINVAL for one that is invalid.
    pub fn read(path: &Path) -> Result<Self, Errno> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Errno::ACCESS);
        }
        if stat.st_size as u64 > LONGEST {
            return Err(Errno::INVAL);
        }
        let mut bytes = [0; LONGEST as usize];
        let used = rustix::io::read(&file, &mut bytes[..])?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(Errno::INVAL)?;
        let text = std::str::from_utf8(&bytes[..used]).map_err(|_| Errno::INVAL)?;
        let mut announcement = Self::parse(name, text).ok_or(Errno::INVAL)?;
        announcement.mode = stat.st_mode & 0o666;
        announcement.group = stat.st_gid;
        Ok(announcement)
    }

    /// Writes the file, in one step; leaves one alone that says the same already.
    ///
    /// # Errors
    /// What the file system says.
    pub fn publish(&self) -> std::io::Result<PathBuf> {
        self.publish_in(Path::new(DIRECTORY))
    }

    fn publish_in(&self, directory: &Path) -> std::io::Result<PathBuf> {
        let path = directory.join(&self.name);
        let said = std::fs::read_to_string(&path).ok();
        let same =
            |meta: std::fs::Metadata| meta.mode() & 0o777 == self.mode && meta.gid() == self.group;
        if said.as_deref() == Some(&self.text()) && std::fs::metadata(&path).is_ok_and(same) {
            return Ok(path);
        }
        std::fs::create_dir_all(directory)?;
        let draft = directory.join(format!(".{}.{}", self.name, std::process::id()));
        let _ = std::fs::remove_file(&draft);
        let mut file =
            std::fs::File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| {
            use std::os::unix::fs::PermissionsExt;
            std::os::unix::fs::fchown(&file, None, Some(self.group))?;
            file.set_permissions(std::fs::Permissions::from_mode(self.mode))?;
            std::fs::rename(&draft, &path)
        });
        if let Err(error) = written {
            let _ = std::fs::remove_file(&draft);
            return Err(error);
        }
        Ok(path)
    }
}

/// The files that are there.
pub fn paths() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(named).collect();
    found.sort();
    found
}

/// Brings the files up to date with XenStore, and tells dom0 which kernel this is. Does nothing
/// where XenStore is out of reach.
pub fn refresh() {
    if Store::is_there() && rustix::process::geteuid().is_root() {
        // Without, what was announced last is what there is.
        let _ = Store::open().and_then(|mut store| refresh_from(&mut store));
    }
}

fn refresh_from(store: &mut Store) -> std::io::Result<()> {
    let Some(own) = own_domain(store)? else { return Ok(()) };
    let names = store.list(keys::POOLS)?;
    for path in paths() {
        let known = path.file_name().and_then(|name| name.to_str());
        if known.is_none_or(|name| !names.iter().any(|other| other == name)) {
            let _ = std::fs::remove_file(path);
        }
    }
    for name in &names {
        if name.starts_with('.') || name.contains('/') {
            continue;
        }
        if let Some(announcement) = Announcement::from_store(store, own, name)? {
            announcement.publish()?;
        }
    }
    if !names.is_empty() {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let said = store.read(&keys::boot(None))?;
        if said.as_deref() != Some(boot.trim()) {
            store.write(&keys::boot(None), boot.trim())?;
        }
    }
    Ok(())
}

/// This domain's id.
pub fn own_domain(store: &mut Store) -> std::io::Result<Option<u16>> {
    Ok(store.number("domid")?.and_then(|id| u16::try_from(id).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Announcement {
        Announcement {
            name: "job7".into(),
            grants: Grants { domid: 5, first: 8, pages: 4096 },
            own: 2,
            mode: 0o640,
            group: rustix::process::getegid().as_raw(),
        }
    }

    #[test]
    fn what_is_published_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = one().publish_in(directory.path()).unwrap();
        assert_eq!(Announcement::read(&path).unwrap(), one());
        let again = one().publish_in(directory.path()).unwrap();
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let before = inode(&path);
        assert_eq!(inode(&again), before);
        // Another pool of the same name gets another file, so that a process that has this one open
        // notices.
        let other = Announcement { grants: Grants { domid: 6, ..one().grants }, ..one() };
        let kept = std::fs::File::open(&path).unwrap();
        other.publish_in(directory.path()).unwrap();
        assert_ne!(inode(&path), kept.metadata().unwrap().ino());
        assert_eq!(Announcement::read(&path).unwrap().grants.domid, 6);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("job7");
        for text in ["", "pool-dom 70000\nref 8\npages 1\nown 0\n", "pool-dom 5\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Announcement::read(&path), Err(Errno::INVAL));
        }
    }
}
