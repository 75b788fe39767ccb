//! Removing a pool's file: the host's privilege.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vshmem_link::{Local, Region};

use crate::create::CreateError;
use crate::error::FindError;

/// Removes a pool's file. Processes that have it mapped keep what they have.
///
/// # Errors
/// Says why not.
pub fn remove(name: &str) -> Result<PathBuf, CreateError> {
    remove_if(name, |_| true)
}

/// As [`remove`], if it is the file that was looked at: another may have come to its place since.
///
/// # Errors
/// Says why not.
pub fn remove_seen(name: &str, seen: &Region) -> Result<PathBuf, CreateError> {
    remove_if(name, |place| {
        let now = place.metadata().map(|meta| (meta.dev(), meta.ino()));
        now.is_ok_and(|now| now == (seen.device, seen.inode))
    })
}

fn remove_if(name: &str, may_go: impl Fn(&Path) -> bool) -> Result<PathBuf, CreateError> {
    let places = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => [false, true].map(|huge| Local::place_of(name, huge)).to_vec(),
    };
    for place in places {
        let is_there = place.symlink_metadata().is_ok();
        if is_there && !may_go(&place) {
            return Err(CreateError::Replaced { name: name.to_owned(), place });
        }
        match std::fs::remove_file(&place) {
            Ok(()) => return Ok(place),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CreateError::Failed {
                    name: name.to_owned(),
                    place,
                    tried: "remove",
                    error,
                });
            }
        }
    }
    Err(FindError::Unknown { name: name.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use vshmem_link::Link;

    use super::*;

    #[test]
    fn a_file_that_has_come_to_the_place_of_the_one_that_was_looked_at_stays() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("vshmem.p");
        std::fs::write(&place, [0; 4096]).unwrap();
        let seen = Local::open(&place).unwrap();
        let file = seen.file().unwrap();
        let name = place.to_str().unwrap();
        let other = directory.path().join("other");
        std::fs::write(&other, "another's letters").unwrap();
        std::fs::rename(&other, &place).unwrap();
        assert!(matches!(remove_seen(name, &file), Err(CreateError::Replaced { .. })));
        assert_eq!(std::fs::read(&place).unwrap(), b"another's letters");
        let file = Local::open(&place).unwrap().file().unwrap();
        remove_seen(name, &file).unwrap();
        assert!(!place.exists());
    }
}
