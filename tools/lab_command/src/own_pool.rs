//! The pool that a lab gets when none is named.

use std::fs;
use std::path::PathBuf;

use vshmem_session::find;

use crate::failure::{Failure, failed};

/// Size of the pool that a lab gets when none is named.
pub const POOL_BYTES: u64 = 64 << 20;
/// Which labs have a pool that was made for them, one file each, with the pool's identity in it.
const OWN_POOLS: &str = "/run/vshmem/lab-pools";

/// A pool that was made for a lab and goes with it.
pub struct OwnPool {
    name: String,
    note: PathBuf,
}

impl OwnPool {
    /// That of a lab.
    pub fn of(lab: &str) -> Self {
        Self { name: lab.to_owned(), note: PathBuf::from(OWN_POOLS).join(lab) }
    }

    fn identity(&self) -> Option<String> {
        let link = find(&self.name).ok()?;
        let (superblock, _) = vshmem_session::identify(link.as_ref()).ok()?;
        Some(vshmem_link::uuid_digits(&superblock.uuid))
    }

    /// Makes it; its name.
    pub fn make(&self, labelled: bool) -> Result<String, Failure> {
        // Left by a lab that ended without `down`.
        self.remove()?;
        vshmem_cli::make_pool(&self.name, POOL_BYTES, labelled)?;
        let write = || {
            fs::create_dir_all(OWN_POOLS)?;
            fs::write(&self.note, self.identity().unwrap_or_default())
        };
        if let Err(error) = write() {
            vshmem_session::remove(&self.name)?;
            return failed(format!(
                "{}: cannot note that the pool is the lab's: {error}",
                self.note.display()
            ));
        }
        Ok(self.name.clone())
    }

    /// Removes it if it is the one that was made here; true if so.
    pub fn remove(&self) -> Result<bool, Failure> {
        let Ok(noted) = fs::read_to_string(&self.note) else {
            return Ok(false);
        };
        let ours = self.identity().is_some_and(|identity| identity == noted);
        if ours {
            vshmem_session::remove(&self.name)?;
        }
        let _ = fs::remove_file(&self.note);
        Ok(ours)
    }
}
