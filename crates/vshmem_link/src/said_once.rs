//! Marks that something was said to the user: empty files, each for all programs that one
//! `vshmem run` has started. The library makes one when it says that a program runs outside of the
//! pool; the domain's agent removes them when it leaves, `vshmem pool rm` those of all domains.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::domain_facts;
use crate::files_beside;
use crate::uuid::uuid_digits;
use crate::wait_words::names::DIRECTORY;

/// What the names of a pool's marks begin with.
fn notice_marks(uuid: &[u8; 16]) -> String {
    format!("vshmem-notice.{}.", uuid_digits(uuid))
}

/// A mark that no other program has: to be made by the program that says something first.
#[must_use]
pub fn notice_mark(uuid: &[u8; 16]) -> Option<PathBuf> {
    let namespace = domain_facts().ok()?.pid_namespace;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = format!("{}{namespace}.{}-{now}", notice_marks(uuid), std::process::id());
    Some(PathBuf::from(DIRECTORY).join(name))
}

/// Whether a path is that of a mark of the pool, in the directory of marks.
#[must_use]
pub fn is_notice_mark(mark: &Path, uuid: &[u8; 16]) -> bool {
    let name = mark.file_name().unwrap_or_default().as_bytes();
    mark.parent() == Some(Path::new(DIRECTORY)) && name.starts_with(notice_marks(uuid).as_bytes())
}

/// Removes those of this domain, or of all, as far as this user may.
pub fn remove_notice_marks(uuid: &[u8; 16], of_all: bool) {
    let mut stem = notice_marks(uuid);
    if !of_all {
        let Ok(facts) = domain_facts() else { return };
        stem.push_str(&format!("{}.", facts.pid_namespace));
    }
    files_beside::remove_all(Path::new(DIRECTORY), &stem);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_one_of_the_pool_in_its_directory() {
        let (uuid, other) = ([1; 16], [2; 16]);
        let mark = notice_mark(&uuid).unwrap();
        assert!(is_notice_mark(&mark, &uuid) && !is_notice_mark(&mark, &other));
        let elsewhere = Path::new("/etc").join(mark.file_name().unwrap());
        assert!(!is_notice_mark(&elsewhere, &uuid));
        assert!(!is_notice_mark(Path::new(""), &uuid));
    }
}
