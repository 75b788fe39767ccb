//! Results of calls as C knows them.

use vshmem_ipc::Errno;

/// -1 with errno, or the value with errno untouched.
pub fn answer<T: Into<i64>>(result: Result<T, Errno>) -> i64 {
    match result {
        Ok(value) => value.into(),
        Err(error) => {
            set(error);
            -1
        }
    }
}

/// As [`answer`], for calls that return an int.
pub fn answer_int<T: Into<i64>>(result: Result<T, Errno>) -> libc::c_int {
    answer(result) as libc::c_int
}

/// As [`answer_int`], for calls that return nothing but success.
pub fn answer_unit(result: Result<(), Errno>) -> libc::c_int {
    answer_int(result.map(|()| 0))
}

/// Sets errno.
pub fn set(error: Errno) {
    // SAFETY: libc's errno location is valid for the calling thread.
    unsafe { *libc::__errno_location() = error.raw_os_error() }
}

/// What errno says now.
pub fn get() -> i32 {
    // SAFETY: as in `set`.
    unsafe { *libc::__errno_location() }
}

/// Runs something that may disturb errno, and puts it back.
pub fn untouched<T>(work: impl FnOnce() -> T) -> T {
    let before = get();
    let result = work();
    // SAFETY: as in `set`.
    unsafe { *libc::__errno_location() = before };
    result
}
