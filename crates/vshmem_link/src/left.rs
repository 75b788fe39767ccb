//! Programs that have left a pool: they were executed by one of its programs, and the library is
//! not loaded into them. The library writes them down as they are executed; `vshmem ls --left`,
//! `vshmem doctor` and `vshmem metrics` show them, `vshmem pool rm` removes the lists.
//!
//! Each user has a list in each domain, `/dev/shm/vshmem-left.UUID.PIDNS.UID`, a line for each
//! program and reason. It is shown, and decides nothing.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::files_beside;
use crate::uuid::uuid_digits;
use crate::wait_words::names::DIRECTORY;

/// Bytes of a list: none is made longer than this, and no more is read of one.
pub const MOST_BYTES: usize = 1 << 16;

/// A program that has left, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftProgram {
    /// Its path, as it was executed.
    pub program: String,
    /// What it is: "is statically linked".
    pub why: String,
    /// The first process that has become it.
    pub pid: u32,
    /// Whose list it is on.
    pub uid: u32,
}

/// What the names of a pool's lists begin with.
fn lists(uuid: &[u8; 16]) -> String {
    format!("vshmem-left.{}.", uuid_digits(uuid))
}

/// Programs that have left a pool in the domains of this kernel: on lists of this user and of
/// root; for root, of all users.
#[must_use]
pub fn left_programs(uuid: &[u8; 16]) -> Vec<LeftProgram> {
    left_in(Path::new(DIRECTORY), uuid)
}

fn left_in(directory: &Path, uuid: &[u8; 16]) -> Vec<LeftProgram> {
    let stem = lists(uuid);
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_list = |name: &[u8]| name.starts_with(stem.as_bytes());
    let mut left: Vec<LeftProgram> = entries
        .flatten()
        .filter(|entry| is_list(entry.file_name().as_bytes()))
        .flat_map(|entry| read(&entry.path()).unwrap_or_default())
        .collect();
    left.sort_by(|one, other| (&one.program, one.uid).cmp(&(&other.program, other.uid)));
    left
}

fn read(path: &Path) -> Option<Vec<LeftProgram>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    let (owner, me) = (meta.uid(), rustix::process::geteuid().as_raw());
    // Another user's sentences are shown to root alone, who can find out whose they are.
    if !meta.is_file() || ![0, me].contains(&owner) && me != 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let entry = |line: &str| {
        let mut words = line.splitn(3, '\t');
        let (pid, why, program) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        Some(LeftProgram { program: program.to_owned(), why: why.to_owned(), pid, uid: owner })
    };
    Some(text.lines().filter_map(entry).collect())
}

/// Removes a pool's lists, as far as this user may.
pub fn remove_left_lists(uuid: &[u8; 16]) {
    files_beside::remove_all(Path::new(DIRECTORY), &lists(uuid));
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: [u8; 16] = [5; 16];

    #[test]
    fn lists_are_read_and_what_is_no_list_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join(format!("{}1.2", lists(&POOL)));
        std::fs::write(&list, "7\tis statically linked\t./a\tb\nnonsense\n8\tx\n").unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let (program, why) = ("./a\tb".to_owned(), "is statically linked".to_owned());
        let expected = [LeftProgram { program, why, pid: 7, uid }];
        assert_eq!(left_in(directory.path(), &POOL), expected);
        assert!(left_in(directory.path(), &[6; 16]).is_empty());
        let link = directory.path().join(format!("{}1.3", lists(&POOL)));
        std::os::unix::fs::symlink(&list, link).unwrap();
        assert_eq!(left_in(directory.path(), &POOL), expected, "no link is followed");
    }
}
