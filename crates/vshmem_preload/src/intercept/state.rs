//! fstat(2), statx(2), fchmod(2), fchown(2), ftruncate(2), fallocate(2), lseek(2) and their kin:
//! what a descriptor's file is, and what is set of it.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint, gid_t, mode_t, off_t, stat, uid_t};

use vshmem_process::dev_shm::calls::{self, Path};
use vshmem_process::next::next;
use vshmem_process::posix::{seek, size, state};

/// Whether a call by path is about its descriptor itself. It has succeeded with the path.
///
/// # Safety
/// `path` leads to a C string, or is null.
unsafe fn is_about_descriptor(path: *const c_char, flags: c_int) -> bool {
    flags & libc::AT_EMPTY_PATH != 0
        // SAFETY: by this function's own contract.
        && (path.is_null() || unsafe { CStr::from_ptr(path) }.is_empty())
}

macro_rules! states {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int, into: *mut stat) -> c_int {
            let call = || next!($symbol: fn(c_int, *mut stat) -> c_int, (file, into), -1);
            // SAFETY: the same contract.
            unsafe { state::fstat(file, into, call) }
        }
    )*};
}
states!(fstat c"fstat", fstat64 c"fstat64");

macro_rules! versioned_states {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), ": fstat(2) before glibc 2.33.")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(version: c_int, file: c_int, into: *mut stat) -> c_int {
            let call = || next!($symbol: fn(c_int, c_int, *mut stat) -> c_int,
                                (version, file, into), -1);
            // SAFETY: the same contract.
            unsafe { state::fstat(file, into, call) }
        }
    )*};
}
/// fstatat(2) before glibc 2.33.
macro_rules! versioned_states_at {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), ": fstatat(2) before glibc 2.33.")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            file: c_int,
            path: *const c_char,
            into: *mut stat,
            flags: c_int,
        ) -> c_int {
            let call = || next!($symbol: fn(c_int, c_int, *const c_char, *mut stat, c_int) -> c_int,
                                (version, file, path, into, flags), -1);
            let by_path = || calls::stat(Path::from(file, path, flags), into, call);
            // SAFETY: the same contract; `is_about_descriptor` reads a path that the call has
            // read already.
            unsafe { state::fstat_at(file, into, || is_about_descriptor(path, flags), by_path) }
        }
    )*};
}
versioned_states_at!(__fxstatat c"__fxstatat", __fxstatat64 c"__fxstatat64");

versioned_states!(__fxstat c"__fxstat", __fxstat64 c"__fxstat64");

macro_rules! states_at {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            file: c_int,
            path: *const c_char,
            into: *mut stat,
            flags: c_int,
        ) -> c_int {
            let call = || next!($symbol: fn(c_int, *const c_char, *mut stat, c_int) -> c_int,
                                (file, path, into, flags), -1);
            let by_path = || calls::stat(Path::from(file, path, flags), into, call);
            // SAFETY: the same contract; `is_about_descriptor` reads a path that the call has
            // read already.
            unsafe { state::fstat_at(file, into, || is_about_descriptor(path, flags), by_path) }
        }
    )*};
}
states_at!(fstatat c"fstatat", fstatat64 c"fstatat64");

/// statx(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    file: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> c_int {
    let call = || {
        next!(c"statx": fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int,
              (file, path, flags, mask, into), -1)
    };
    let by_path = || calls::statx(Path::from(file, path, flags), into, call);
    // SAFETY: the same contract; `is_about_descriptor` reads a path that the call has read already.
    unsafe { state::statx(file, into, || is_about_descriptor(path, flags), by_path) }
}

/// fchmod(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmod(file: c_int, mode: mode_t) -> c_int {
    state::set_mode(file, mode, || next!(c"fchmod": fn(c_int, mode_t) -> c_int, (file, mode), -1))
}

/// fchown(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchown(file: c_int, uid: uid_t, gid: gid_t) -> c_int {
    state::set_owner(
        file,
        uid,
        gid,
        || next!(c"fchown": fn(c_int, uid_t, gid_t) -> c_int, (file, uid, gid), -1),
    )
}

macro_rules! truncations {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int, bytes: off_t) -> c_int {
            size::truncate(file, bytes,
                           || next!($symbol: fn(c_int, off_t) -> c_int, (file, bytes), -1))
        }
    )*};
}
truncations!(ftruncate c"ftruncate", ftruncate64 c"ftruncate64");

macro_rules! allocations {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            mode: c_int,
            offset: off_t,
            bytes: off_t,
        ) -> c_int {
            size::allocate(file, mode, offset, bytes, || {
                next!($symbol: fn(c_int, c_int, off_t, off_t) -> c_int,
                      (file, mode, offset, bytes), -1)
            })
        }
    )*};
}
allocations!(fallocate c"fallocate", fallocate64 c"fallocate64");

macro_rules! whole_allocations {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(file: c_int, offset: off_t, bytes: off_t) -> c_int {
            size::allocate_all(file, offset, bytes, || {
                next!($symbol: fn(c_int, off_t, off_t) -> c_int,
                      (file, offset, bytes), libc::ENOSYS)
            })
        }
    )*};
}
whole_allocations!(posix_fallocate c"posix_fallocate", posix_fallocate64 c"posix_fallocate64");

macro_rules! seeks {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int, offset: off_t, from: c_int) -> off_t {
            seek::seek(file, offset, from, || {
                next!($symbol: fn(c_int, off_t, c_int) -> off_t, (file, offset, from), -1)
            })
        }
    )*};
}
seeks!(lseek c"lseek", lseek64 c"lseek64");
