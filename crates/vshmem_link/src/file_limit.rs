//! The limit on the size of files (RLIMIT_FSIZE).
//!
//! A process that makes a file longer than the limit gets SIGXFSZ, which ends a program that knows
//! nothing of the file. So the limit is read first, and what it does not allow is an error.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What to do about it.
pub const FILE_LIMIT: &str =
    "The limit on the size of files is below what it needs: raise it with `ulimit -f unlimited`";

/// Whether this process may write to a file up to so many bytes.
///
/// # Errors
/// EFBIG when it may not.
pub fn allows(bytes: u64) -> Result<(), Errno> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if bytes > most => Err(Errno::FBIG),
        _ => Ok(()),
    }
}
