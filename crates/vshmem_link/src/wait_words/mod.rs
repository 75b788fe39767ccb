//! The files that threads of a domain sleep on, where pool memory does not allow it: one for each
//! user.
//!
//! `/dev/shm/vshmem-wait.UUID.UID` belongs to the user that is its name, and that user alone may
//! write to it: a user that may write to a file may shorten it, and a process that touches the
//! pages that are gone gets SIGBUS. So a process maps its own user's file to touch it, and those of
//! others for the kernel alone (`vshmem_mem::ForeignWords`): waking takes no more than the right to
//! read. The first one makes its own user's file. It appears under its name when it is whole, and
//! is never made longer.
//!
//! A program that has confined itself opens no further files. It wakes threads of users that it has
//! woken before; threads of other users poll.
//!
//! Another user may have put something there before. Then the user takes another file with a
//! number that cannot be known ahead behind its name, and the pool says which.

pub(crate) mod names;
mod others;
mod own;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::Stat;
use rustix::io::Errno;
use vshmem_mem::{Mapping, Protection, map_file};
use vshmem_sync::WordsOwner;

pub use names::remove_wait_files;
pub use others::Files;

use crate::file_limit::FILE_LIMIT;
use crate::region::RegionError;
use names::{DIRECTORY, Names};
use own::fail;

/// A user's file, mapped.
#[derive(Debug)]
pub struct OwnWords {
    /// Its words.
    pub mapping: Mapping,
    /// What others find it by.
    pub owner: WordsOwner,
    /// How others are woken.
    pub other_users: Files,
}

/// Opens this user's wait file for a pool, makes it if there is none, and maps it. `known`: numbers
/// of files of this user's, as the pool has them.
///
/// # Errors
/// Says what was tried and what came back.
pub fn open_wait_words(
    uuid: &[u8; 16],
    bytes: usize,
    device: &Path,
    known: &dyn Fn() -> Vec<u32>,
) -> Result<OwnWords, RegionError> {
    let path = Path::new(DIRECTORY);
    let audience = rustix::fs::stat(device).map_err(|errno| RegionError::Failed {
        path: device.to_owned(),
        tried: "see whom it lets in",
        errno,
    })?;
    open_in(Names::new(path, uuid, bytes), &audience, known)
}

/// As [`open_wait_words`], for files of other names.
fn open_in(
    names: Names,
    audience: &Stat,
    known: &dyn Fn() -> Vec<u32>,
) -> Result<OwnWords, RegionError> {
    let opened = own::open_any(&names, audience, known).and_then(|(owner, file)| {
        map_file(file.as_fd(), 0, names.bytes, Protection::READ_WRITE)
            .map(|mapping| (owner, mapping))
            .map_err(fail("map it"))
    });
    match opened {
        Ok((owner, mapping)) => Ok(OwnWords { mapping, owner, other_users: Files::new(names) }),
        Err((tried, errno)) => {
            let uid = rustix::process::geteuid().as_raw();
            let path = names.path(WordsOwner { uid, nonce: 0 });
            Err(match errno {
                Errno::FBIG => RegionError::NoRoom { path, tried, errno, remedy: FILE_LIMIT },
                errno => RegionError::Failed { path, tried, errno },
            })
        }
    }
}
