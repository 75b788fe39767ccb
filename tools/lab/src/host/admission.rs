//! Who may open what: the guests' users are nobody on the host, so a pool file that they shall have
//! is opened to them by an entry in its access control list while they boot, and to no others. An
//! open file stays open: once the guests run the entry goes away again, and owner and mode are what
//! the pool's creator made them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use crate::error::{Doing, Error, Result};
use crate::host::directory::NamingLock;
use crate::host::record::Record;
use crate::host::tool;

/// Checks that a guest's user can read that file.
pub(crate) fn require_readable(path: &Path, uid: u32) -> Result<()> {
    if opens(path, uid, false)? {
        Ok(())
    } else {
        Err(Error::Unreadable { path: path.to_owned(), uid })
    }
}

/// Opens the pool to the users of `guests`.
pub(crate) fn admit(record: &Record, guests: std::ops::RangeInclusive<u32>) -> Result<()> {
    let _lock = NamingLock::take()?;
    admit_locked(record, guests)
}

/// As [`admit`], by a caller who holds the lock.
pub(crate) fn admit_locked(record: &Record, guests: std::ops::RangeInclusive<u32>) -> Result<()> {
    let Some(pool) = &record.pool else {
        return Ok(());
    };
    for guest in guests {
        let uid = record.uid(guest);
        if opens(pool, uid, true)? {
            continue;
        }
        let entry = Acl::read(pool).and_then(|mut acl| {
            acl.admit(uid);
            acl.write(pool)
        });
        if !opens(pool, uid, true)? {
            let status = std::fs::metadata(pool).doing(|| format!("stat the pool {pool:?}"))?;
            let tried = entry.err().map_or_else(
                || "an access control entry for it did not help".to_owned(),
                |error| format!("no access control entry could be set: {error}"),
            );
            withdraw_locked(record)?;
            return Err(Error::PoolClosed {
                path: pool.clone(),
                guest,
                uid,
                found: format!(
                    "owner {}, group {}, mode {:o}; {tried}",
                    status.uid(),
                    status.gid(),
                    status.mode() & 0o7777
                ),
            });
        }
    }
    Ok(())
}

/// Takes back what [`admit`] gave.
pub(crate) fn withdraw(record: &Record) -> Result<()> {
    if record.pool.is_none() {
        return Ok(());
    }
    let _lock = NamingLock::take()?;
    withdraw_locked(record)
}

/// As [`withdraw`], by a caller who holds the lock.
pub(crate) fn withdraw_locked(record: &Record) -> Result<()> {
    let Some(pool) = record.pool.as_deref().filter(|pool| pool.exists()) else {
        return Ok(());
    };
    let Ok(mut acl) = Acl::read(pool) else {
        return Ok(());
    };
    if acl.withdraw(&record.uids()) {
        acl.write(pool).doing(|| format!("restore the access control list of {pool:?}"))?;
    }
    Ok(())
}

/// Can that user open the file? Asked of the kernel, as that user.
fn opens(path: &Path, uid: u32, write: bool) -> Result<bool> {
    let uid = uid.to_string();
    let mut command = Command::new(tool::find("setpriv").unwrap_or_else(|| "setpriv".into()));
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "test", "-r"]).arg(path);
    if write {
        command.args(["-a", "-w"]).arg(path);
    }
    let status = command.status().doing(|| format!("ask whether user {uid} can open {path:?}"))?;
    Ok(status.success())
}

const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const NOBODY: u32 = u32::MAX;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const READ_WRITE: u16 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u16,
    rights: u16,
    id: u32,
}

/// A POSIX access control list, in the kernel's order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Acl(Vec<Entry>);

impl Acl {
    fn read(path: &Path) -> Result<Self, std::io::Error> {
        let mut buffer = vec![0_u8; 64 * 1024];
        match getxattr(path, ATTRIBUTE, &mut buffer[..]) {
            Ok(size) => Self::decode(&buffer[..size]).ok_or_else(|| {
                std::io::Error::other("its access control list has an unknown form")
            }),
            Err(Errno::NODATA) => Ok(Self::of_mode(std::fs::metadata(path)?.mode())),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, path: &Path) -> Result<(), std::io::Error> {
        Ok(setxattr(path, ATTRIBUTE, &self.encode(), XattrFlags::empty())?)
    }

    fn of_mode(mode: u32) -> Self {
        let entry = |tag, shift: u32| Entry { tag, rights: (mode >> shift & 7) as u16, id: NOBODY };
        Acl(vec![entry(USER_OBJ, 6), entry(GROUP_OBJ, 3), entry(OTHER, 0)])
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let entry = |e: &[u8]| Entry {
            tag: u16::from_le_bytes([e[0], e[1]]),
            rights: u16::from_le_bytes([e[2], e[3]]),
            id: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
        };
        Some(Acl(entries.chunks_exact(8).map(entry).collect()))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.rights.to_le_bytes());
            bytes.extend(entry.id.to_le_bytes());
        }
        bytes
    }

    /// Lets one more user read and write, and widens no other's rights.
    fn admit(&mut self, uid: u32) {
        let masked = |entry: &Entry| matches!(entry.tag, USER | GROUP_OBJ | GROUP);
        if let Some(mask) = self.0.iter().find(|entry| entry.tag == MASK).map(|entry| entry.rights)
        {
            self.0.iter_mut().filter(|entry| masked(entry)).for_each(|entry| entry.rights &= mask);
        }
        self.0.retain(|entry| !(entry.tag == MASK || entry.tag == USER && entry.id == uid));
        self.0.push(Entry { tag: USER, rights: READ_WRITE, id: uid });
        let union =
            self.0.iter().filter(|entry| masked(entry)).fold(0, |all, entry| all | entry.rights);
        self.0.push(Entry { tag: MASK, rights: union, id: NOBODY });
        self.0.sort_by_key(|entry| (entry.tag, entry.id));
    }

    /// Drops those users' entries; true if there were any.
    fn withdraw(&mut self, uids: &std::ops::Range<u32>) -> bool {
        let before = self.0.len();
        self.0.retain(|entry| !(entry.tag == USER && uids.contains(&entry.id)));
        let changed = self.0.len() != before;
        if changed && !self.0.iter().any(|entry| matches!(entry.tag, USER | GROUP)) {
            self.0.retain(|entry| entry.tag != MASK);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_and_withdrawal_leave_the_list_as_it_was() {
        let plain = Acl::of_mode(0o640);
        let mut acl = plain.clone();
        acl.admit(77);
        acl.admit(78);
        assert_eq!(acl.0.iter().filter(|entry| entry.tag == USER).count(), 2);
        assert_eq!(
            acl.0.iter().find(|entry| entry.tag == MASK).map(|entry| entry.rights),
            Some(READ_WRITE)
        );
        assert_eq!(
            acl.0.iter().find(|entry| entry.tag == GROUP_OBJ).map(|entry| entry.rights),
            Some(4)
        );
        assert_eq!(Acl::decode(&acl.encode()), Some(acl.clone()));
        assert!(acl.withdraw(&(77..79)));
        assert_eq!(acl, plain);
        assert!(!acl.withdraw(&(77..79)));
    }

    #[test]
    fn a_narrow_mask_stays_narrow_for_the_others() {
        let mut acl = Acl::of_mode(0o600);
        acl.admit(5);
        acl.0.iter_mut().find(|entry| entry.tag == MASK).unwrap().rights = 4;
        acl.admit(77);
        assert_eq!(
            acl.0.iter().find(|entry| entry.tag == USER && entry.id == 5).map(|entry| entry.rights),
            Some(4)
        );
    }
}
