//! What lies beside pools, in files whose names begin with the pool's: removed with it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Removes the files in a directory whose names begin so, as far as this user may: those of other
/// users are theirs, or root's, to remove.
pub(crate) fn remove_all(directory: &Path, stem: &str) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_bytes().starts_with(stem.as_bytes()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
