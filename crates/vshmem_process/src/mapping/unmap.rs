//! munmap(2) and mmap(2) over attached segments: the kernel counts mappings, and so do we.

use libc::{c_int, c_void};

use crate::attached::addresses::PAGE;
use crate::attached::mapping_cache;
use crate::errno;
use crate::mapping::change::replacing;
use crate::mapping::whole_units;
use crate::next::system_call;

/// munmap(2), by whatever call.
pub fn unmap(start: usize, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    let whole = || {
        let length = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
        whole_units::unmap_again(call(), start, length, |start, bytes| {
            // SAFETY: the program unmaps what it has mapped there; nothing else is in the units.
            (unsafe { system_call(libc::SYS_munmap, [start, bytes]) }) as c_int
        })
    };
    replacing(start, bytes, whole, |&result| result == 0)
}

/// mmap(2), by whatever call: with MAP_FIXED it unmaps what was there.
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
