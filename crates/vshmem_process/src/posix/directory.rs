//! The directory in which the kernel shows its objects: /dev/shm, as this process sees it.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;
use vshmem_mem::{seconds_now, unless_confined};
use vshmem_wire::fnv1a_64;

use crate::errno;
use crate::next::system_call;
use crate::object_descriptors::Identity;

/// Its path.
pub const PATH: &CStr = c"/dev/shm";

static DIRECTORY: OnceLock<Option<Identity>> = OnceLock::new();

/// Which file it is; none where there is no such directory.
pub fn identity() -> Option<Identity> {
    *DIRECTORY.get_or_init(|| file_at(libc::AT_FDCWD, PATH, 0).map(|file| file.identity))
}

/// A file that a path leads to.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Which it is.
    pub identity: Identity,
    /// `st_mode`.
    pub mode: u32,
}

/// What the kernel has at a path. A program that has confined itself is not asked: `None`.
pub fn file_at(at: c_int, path: &CStr, flags: c_int) -> Option<File> {
    unless_confined(|| {
        // SAFETY: all-zero bytes are a value of it.
        let mut state: libc::stat = unsafe { std::mem::zeroed() };
        let into = (&raw mut state).addr();
        let words = [at as usize, path.as_ptr().addr(), into, flags as usize];
        // SAFETY: the kernel fills in what `into` points to; the path is a C string.
        let failed = errno::untouched(|| unsafe { system_call(libc::SYS_newfstatat, words) });
        let identity = Identity { device: state.st_dev, inode: state.st_ino };
        (failed == 0).then_some(File { identity, mode: state.st_mode })
    })
    .flatten()
}

/// Whether a path leads to the directory itself.
pub fn is_at(at: c_int, path: &CStr) -> bool {
    let flags = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    identity().is_some_and(|it| file_at(at, path, flags).is_some_and(|file| file.identity == it))
}

/// Paths that have led elsewhere in this second, by their hashes: programs look for many files that
/// are not there in few directories.
static ELSEWHERE: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// Raised when the program has made what may be a link.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// To be called when the program has made what may be a link.
pub fn forget() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}

/// Whether an absolute path leads to the directory: as it was at some time in this second, if
/// directories were renamed or other processes have made links.
pub fn is_at_absolute(path: &CStr) -> bool {
    let moment = CHANGES.load(Ordering::Acquire) << 32 | u64::from(seconds_now());
    let hash = fnv1a_64(path.to_bytes()) ^ moment.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let known = &ELSEWHERE[hash as usize % ELSEWHERE.len()];
    if known.load(Ordering::Relaxed) == hash {
        return false;
    }
    let is_it = is_at(libc::AT_FDCWD, path);
    if !is_it {
        known.store(hash, Ordering::Relaxed);
    }
    is_it
}
