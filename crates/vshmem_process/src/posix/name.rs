//! Names of POSIX objects, as libc reads them.

use std::ffi::{CStr, c_char};

use vshmem_ipc::Errno;
use vshmem_session::Posix;
use vshmem_wire::NAME_BYTES;

use crate::session::route;

/// Whether what a program names is the pool's: its kind is, and so is its name.
///
/// # Safety
/// `name` leads to a C string.
pub unsafe fn in_pool(what: Posix, name: *const c_char) -> bool {
    if !route::posix_in_pool(what) {
        return false;
    }
    // SAFETY: by this function's own contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let first = text.iter().position(|&byte| byte != b'/').unwrap_or(text.len());
    route::takes_name(&text[first..])
}

/// A name as shm_open(3) takes it, without the slashes that it begins with.
///
/// # Errors
/// EINVAL, ENAMETOOLONG.
///
/// # Safety
/// `name` leads to a C string, which stays for as long as the result.
pub unsafe fn read<'a>(name: *const c_char) -> Result<&'a [u8], Errno> {
    // SAFETY: by this function's own contract.
    without_slashes(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// A name as shm_unlink(3) takes it.
///
/// # Errors
/// ENOENT, ENAMETOOLONG; EISDIR for the directory that the kernel's objects lie in.
///
/// # Safety
/// As for [`read`].
pub unsafe fn read_to_unlink<'a>(name: *const c_char) -> Result<&'a [u8], Errno> {
    // SAFETY: the same contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    match without_slashes(text) {
        Err(Errno::INVAL) if text.ends_with(b".") => Err(Errno::ISDIR),
        Err(Errno::INVAL) => Err(Errno::NOENT),
        other => other,
    }
}

/// A name as mq_open(3) and mq_unlink(3) read it, behind its slash: by glibc (no slash in front),
/// by the kernel (any other).
///
/// # Errors
/// EINVAL, ENOENT, EACCES, ENAMETOOLONG.
///
/// # Safety
/// As for [`read`].
pub unsafe fn read_of_queue<'a>(name: *const c_char) -> Result<&'a [u8], Errno> {
    // SAFETY: the same contract.
    behind_slash(unsafe { CStr::from_ptr(name) }.to_bytes())
}

fn behind_slash(text: &[u8]) -> Result<&[u8], Errno> {
    const LONGEST_PATH: usize = 4095;
    match text.strip_prefix(b"/").ok_or(Errno::INVAL)? {
        b"" => Err(Errno::NOENT),
        name if name.len() > LONGEST_PATH => Err(Errno::NAMETOOLONG),
        b"." | b".." => Err(Errno::ACCESS),
        name if name.contains(&b'/') => Err(Errno::ACCESS),
        name if name.len() > NAME_BYTES => Err(Errno::NAMETOOLONG),
        name => Ok(name),
    }
}

fn without_slashes(text: &[u8]) -> Result<&[u8], Errno> {
    let first = text.iter().position(|&byte| byte != b'/').unwrap_or(text.len());
    match &text[first..] {
        b"" | b"." | b".." => Err(Errno::INVAL),
        name if name.contains(&b'/') => Err(Errno::INVAL),
        name if name.len() > NAME_BYTES => Err(Errno::NAMETOOLONG),
        name => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_is_behind_the_slashes() {
        for (text, name) in [("/a", "a"), ("a", "a"), ("///a.b", "a.b"), ("/...", "...")] {
            assert_eq!(without_slashes(text.as_bytes()), Ok(name.as_bytes()), "{text}");
        }
        for text in ["", "/", "//", "/a/", "/a/b", "a/b", "/.", "/.."] {
            assert_eq!(without_slashes(text.as_bytes()), Err(Errno::INVAL), "{text}");
        }
        let longest = "x".repeat(NAME_BYTES);
        assert_eq!(without_slashes(longest.as_bytes()), Ok(longest.as_bytes()));
        let too_long = format!("/{longest}x");
        assert_eq!(without_slashes(too_long.as_bytes()), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn unlink_has_errors_of_its_own() {
        for (text, errno) in [(c"", Errno::NOENT), (c"/a/b", Errno::NOENT), (c"/.", Errno::ISDIR)] {
            // SAFETY: a C string that stays.
            assert_eq!(unsafe { read_to_unlink(text.as_ptr()) }, Err(errno), "{text:?}");
        }
    }

    #[test]
    fn names_are_refused_as_glibc_and_the_kernel_refuse_them() {
        assert_eq!(behind_slash(b"/a"), Ok(b"a".as_slice()));
        for (text, errno) in [
            ("", Errno::INVAL),
            ("a", Errno::INVAL),
            ("/", Errno::NOENT),
            ("//a", Errno::ACCESS),
            ("/a/", Errno::ACCESS),
            ("/.", Errno::ACCESS),
            ("/..", Errno::ACCESS),
        ] {
            assert_eq!(behind_slash(text.as_bytes()), Err(errno), "{text}");
        }
        let longest = format!("/{}", "x".repeat(255));
        assert!(behind_slash(longest.as_bytes()).is_ok());
        assert_eq!(behind_slash((longest + "x").as_bytes()), Err(Errno::NAMETOOLONG));
    }
}
