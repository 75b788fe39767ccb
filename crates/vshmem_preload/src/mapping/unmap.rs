//! munmap(2) and mmap(2) over attached segments: the kernel counts mappings, and so do we.

use std::ptr::NonNull;

use libc::{c_int, c_void, off_t, size_t};
use vshmem_session::Session;

use crate::attached::books::Changing;
use crate::attached::{mapping_cache, pieces};
use crate::errno;
use crate::mapping::user;
use crate::next::next;
use crate::session::join;

const PAGE: usize = 4096;

/// Unmaps a range of the pool without telling anybody, with what the device had to map around it.
pub fn drop_mapping(start: usize, bytes: usize) {
    let range = match join::joined() {
        Some(session) => session.link().footprint(start, bytes),
        None => start..start.saturating_add(bytes),
    };
    drop_range(range.start, range.len());
}

/// Unmaps a range, whatever it is.
pub fn drop_range(start: usize, bytes: usize) {
    if let Some(start) = NonNull::new(start as *mut u8) {
        // SAFETY: the callers own the range.
        let _ = unsafe { vshmem_mem::unmap(start, bytes) };
    }
}

/// The books for this thread alone, if a call is about to change a range in which something is
/// attached. It is to live until both the kernel and the books have changed: a thread that attaches
/// could be given the addresses in between, and its attach be taken for the one that has gone.
///
/// What is unmapped without that is a range that no piece lies in; what the kernel gives to another
/// thread afterwards is not looked at any more.
pub fn change(start: usize, bytes: usize) -> Option<(Changing, &'static Session)> {
    join::joined()?;
    if !pieces::may_touch(start, bytes) {
        return None;
    }
    let session = errno::untouched(join::session).ok()?;
    Some((Changing::begin(), session))
}

/// Makes a call that unmaps a range, or covers it; `done` says whether it has.
pub fn replacing<T>(
    start: usize,
    bytes: usize,
    call: impl FnOnce() -> T,
    done: impl FnOnce(&T) -> bool,
) -> T {
    let bytes = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    errno::untouched(|| mapping_cache::drop_range(start, bytes));
    let change = change(start, bytes);
    let result = call();
    if done(&result) {
        user::forget();
        if let Some((_, session)) = &change {
            pieces::forget_range(session.member(), start, bytes);
        }
    }
    result
}

/// munmap(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    unmap(
        start.addr(),
        bytes,
        || next!(c"munmap": fn(*mut c_void, size_t) -> c_int, (start, bytes), -1),
    )
}

/// munmap(2), by whatever call: here as below, one by number must not come to libc's function of the
/// name, which others (UCX) redirect to themselves and then come back by number.
pub fn unmap(start: usize, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    replacing(start, bytes, call, |&result| result == 0)
}

/// mmap(2): with MAP_FIXED it unmaps what was there.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    map(start.addr(), bytes, flags, || {
        next!(c"mmap":
            fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void,
            (start, bytes, rights, flags, file, offset), libc::MAP_FAILED)
    })
}

/// mmap(2), by whatever call.
pub fn map(
    start: usize,
    bytes: usize,
    flags: c_int,
    call: impl Fn() -> *mut c_void,
) -> *mut c_void {
    let once = || {
        if flags & libc::MAP_FIXED == 0 {
            // A place that a program asks for is free if a segment was detached there.
            if start != 0 {
                errno::untouched(|| mapping_cache::drop_range(start, bytes));
            }
            return call();
        }
        replacing(start, bytes, &call, |&result| result != libc::MAP_FAILED)
    };
    let result = once();
    // What is kept of detached segments may take the addresses.
    if result == libc::MAP_FAILED
        && matches!(errno::get(), libc::ENOMEM | libc::EEXIST)
        && errno::untouched(mapping_cache::drop_all)
    {
        return once();
    }
    result
}

/// mmap64(3): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { mmap(start, bytes, rights, flags, file, offset) }
}
