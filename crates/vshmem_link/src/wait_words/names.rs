//! What the files are called, and what a file must be to be what its name says.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use vshmem_sync::WordsOwner;

use crate::files_beside;
use crate::uuid::uuid_digits;

/// Where the files are.
pub const DIRECTORY: &str = "/dev/shm";

/// What the names of a pool's wait files begin with.
fn wait_files(uuid: &[u8; 16]) -> String {
    format!("vshmem-wait.{}", uuid_digits(uuid))
}

/// Removes a pool's wait files. Only domains that cannot sleep on pool memory have any, one for
/// each user.
pub fn remove_wait_files(uuid: &[u8; 16]) {
    files_beside::remove_all(Path::new(DIRECTORY), &wait_files(uuid));
}

/// The names of one pool's files in this domain, and their length.
#[derive(Debug)]
pub struct Names {
    pub directory: PathBuf,
    /// What they begin with.
    stem: String,
    pub bytes: usize,
}

impl Names {
    /// Those of the pool that has this UUID.
    pub fn new(directory: &Path, uuid: &[u8; 16], bytes: usize) -> Self {
        Self { directory: directory.to_owned(), stem: wait_files(uuid), bytes }
    }

    /// The file of an owner.
    pub fn path(&self, owner: WordsOwner) -> PathBuf {
        let WordsOwner { uid, nonce } = owner;
        self.directory.join(match nonce {
            0 => format!("{}.{uid}", self.stem),
            nonce => format!("{}.{uid}.{nonce:08x}", self.stem),
        })
    }

    /// As [`Names::path`], without the heap.
    pub fn path_in<'a>(&self, owner: WordsOwner, room: &'a mut [u8]) -> Option<&'a CStr> {
        use std::io::Write;
        let mut rest = &mut room[..];
        let WordsOwner { uid, nonce } = owner;
        rest.write_all(self.directory.as_os_str().as_encoded_bytes()).ok()?;
        write!(rest, "/{}.{uid}", self.stem).ok()?;
        if nonce != 0 {
            write!(rest, ".{nonce:08x}").ok()?;
        }
        rest.write_all(&[0]).ok()?;
        CStr::from_bytes_until_nul(room).ok()
    }

    /// Whether a file is what its name says.
    pub fn is_words_of(&self, stat: &Stat, uid: u32) -> bool {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_uid == uid
            && stat.st_size as u64 >= self.bytes as u64
    }
}
