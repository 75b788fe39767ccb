//! /proc/sysvipc tells of the kernel's objects; where a kind has others in the pool its file is not
//! there, so that `ipcs` and its like ask by *_STAT and *_INFO instead.

use std::ffi::CStr;

use libc::{FILE, c_char, c_int, mode_t};

use vshmem_ipc::Kind;
use vshmem_session::Owner;

use crate::next::next;
use crate::{errno, route};

/// Whether the kernel's list of a kind would not tell all.
fn incomplete(kind: Kind) -> bool {
    route::owner(kind) != Owner::Kernel
}

fn hidden(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the callers' contract is that a path is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let hidden = match path.to_bytes().strip_prefix(b"/proc/sysvipc") {
        None => false,
        Some(b"/shm") => incomplete(Kind::Segment),
        Some(b"/sem") => incomplete(Kind::Semaphore),
        Some(b"/msg") => incomplete(Kind::Queue),
        Some(_) => Kind::ALL.into_iter().all(incomplete),
    };
    if hidden {
        errno::set(vshmem_ipc::Errno::NOENT);
    }
    hidden
}

/// fopen(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    if hidden(path) {
        return std::ptr::null_mut();
    }
    next!(c"fopen": fn(*const c_char, *const c_char) -> *mut FILE, (path, mode),
          std::ptr::null_mut())
}

/// fopen64(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    if hidden(path) {
        return std::ptr::null_mut();
    }
    next!(c"fopen64": fn(*const c_char, *const c_char) -> *mut FILE, (path, mode),
          std::ptr::null_mut())
}

/// open(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if hidden(path) {
        return -1;
    }
    next!(c"open": fn(*const c_char, c_int, mode_t) -> c_int, (path, flags, mode), -1)
}

/// open64(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if hidden(path) {
        return -1;
    }
    next!(c"open64": fn(*const c_char, c_int, mode_t) -> c_int, (path, flags, mode), -1)
}

/// access(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    if hidden(path) {
        return -1;
    }
    next!(c"access": fn(*const c_char, c_int) -> c_int, (path, mode), -1)
}
