//! ftok(3), with the same answer in every domain.
//!
//! libc's is made of device and inode numbers, which differ between a host and its guests. Ours is
//! a hash of the resolved path; `VSHMEM_FTOK=inode` gives libc's.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use libc::{c_char, c_int, key_t};
use vshmem_ipc::Errno;
use vshmem_wire::fnv1a_32;

use vshmem_process::errno;
use vshmem_process::next::next;

/// ftok(3).
///
/// # Safety
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftok(path: *const c_char, project: c_int) -> key_t {
    if std::env::var_os("VSHMEM_FTOK").is_some_and(|way| way == "inode") {
        return next!(c"ftok": fn(*const c_char, c_int) -> key_t, (path, project), -1);
    }
    if path.is_null() {
        errno::set(Errno::FAULT);
        return -1;
    }
    // SAFETY: by this function's contract.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let before = errno::get();
    match std::fs::canonicalize(path) {
        Ok(resolved) => {
            // SAFETY: libc's errno location is valid for the calling thread.
            unsafe { *libc::__errno_location() = before };
            key_of(resolved.as_os_str().as_bytes(), project)
        }
        Err(error) => {
            errno::set(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::ENOENT)));
            -1
        }
    }
}

/// Project id in the high byte, as in libc; 24 bits of the path's hash below.
fn key_of(path: &[u8], project: c_int) -> key_t {
    let hash = fnv1a_32(path);
    let low = (hash ^ (hash >> 24)) & 0x00ff_ffff;
    // Never IPC_PRIVATE.
    let low = if low == 0 { 1 } else { low };
    (((project as u32) & 0xff) << 24 | low) as key_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_path_and_project_and_are_never_private() {
        assert_ne!(key_of(b"/etc/passwd", 1), key_of(b"/etc/passwd", 2));
        assert_ne!(key_of(b"/etc/passwd", 1), key_of(b"/etc/group", 1));
        assert_eq!(key_of(b"/etc/passwd", 1), key_of(b"/etc/passwd", 257));
        assert_ne!(key_of(b"", 0), 0);
    }
}
