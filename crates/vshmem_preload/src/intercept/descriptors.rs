//! close(2), dup(2), fcntl(2) and their kin: calls that make a number stand for another file, or
//! for none.
//!
//! Some are cancellation points: a thread may leave by them.

use libc::{c_int, c_uint, off_t};

use crate::intercept::stream;
use vshmem_process::next::next;
use vshmem_process::posix::follow;

/// close(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(file: c_int) -> c_int {
    follow::close(file, || next!(c"close": fn(c_int) -> c_int, (file), -1))
}

/// close_range(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    follow::close_range(
        first,
        last,
        || next!(c"close_range": fn(c_uint, c_uint, c_int) -> c_int, (first, last, flags), -1),
    )
}

/// closefrom(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    let lowest = c_uint::try_from(first).unwrap_or(0);
    follow::close_range(lowest, c_uint::MAX, || next!(c"closefrom": fn(c_int) -> (), (first), ()));
}

/// dup(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(file: c_int) -> c_int {
    stream::note(follow::duplicate(file, || next!(c"dup": fn(c_int) -> c_int, (file), -1)))
}

/// dup2(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(file: c_int, number: c_int) -> c_int {
    stream::note(follow::duplicate_to(
        file,
        number,
        || next!(c"dup2": fn(c_int, c_int) -> c_int, (file, number), -1),
    ))
}

/// dup3(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(file: c_int, number: c_int, flags: c_int) -> c_int {
    stream::note(follow::duplicate_to(
        file,
        number,
        || next!(c"dup3": fn(c_int, c_int, c_int) -> c_int, (file, number, flags), -1),
    ))
}

/// fcntl(2). The last argument is C's variadic one.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(file: c_int, command: c_int, argument: usize) -> c_int {
    let call = || next!(c"fcntl": fn(c_int, c_int, usize) -> c_int, (file, command, argument), -1);
    // SAFETY: the same contract.
    unsafe { follow::control(file, command, argument, call) }
}

/// fcntl64(2): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(file: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the same contract.
    unsafe { fcntl(file, command, argument) }
}

/// flock(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn flock(file: c_int, operation: c_int) -> c_int {
    follow::lock(
        file,
        operation,
        || next!(c"flock": fn(c_int, c_int) -> c_int, (file, operation), -1),
    )
}

/// lockf(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lockf(file: c_int, command: c_int, bytes: off_t) -> c_int {
    follow::lock_section(
        file,
        command,
        bytes,
        || next!(c"lockf": fn(c_int, c_int, off_t) -> c_int, (file, command, bytes), -1),
    )
}

/// lockf64(3): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lockf64(file: c_int, command: c_int, bytes: off_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { lockf(file, command, bytes) }
}
