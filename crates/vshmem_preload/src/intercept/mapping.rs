//! The calls on the address space: munmap(2), mmap(2), mremap(2), mprotect(2), madvise(2), mlock(2)
//! and their kin.

use libc::{c_int, c_uint, c_ulong, c_void, off_t, size_t};

use vshmem_process::attached::attach_table::Marks;
use vshmem_process::mapping::{advice, protect, remap, unmap};
use vshmem_process::next::{next, system_call};
use vshmem_process::posix::map::{self, Request};

/// munmap(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    unmap::unmap(
        start.addr(),
        bytes,
        || next!(c"munmap": fn(*mut c_void, size_t) -> c_int, (start, bytes), -1),
    )
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
    let request = Request { start: start.addr(), bytes, rights, flags, file, offset };
    map::map(request, || {
        next!(c"mmap":
            fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void,
            (start, bytes, rights, flags, file, offset), libc::MAP_FAILED)
    })
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
/// mremap(2). The last argument is C's variadic new address.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    bytes: size_t,
    new_bytes: size_t,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    remap::remap(start.addr(), bytes, new_bytes, flags, target.addr(), || {
        next!(c"mremap":
            fn(*mut c_void, size_t, size_t, c_int, *mut c_void) -> *mut c_void,
            (start, bytes, new_bytes, flags, target), libc::MAP_FAILED)
    })
}

/// remap_file_pages(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remap_file_pages(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    page: size_t,
    flags: c_int,
) -> c_int {
    remap::show(start.addr(), bytes, rights, page, || {
        next!(c"remap_file_pages":
            fn(*mut c_void, size_t, c_int, size_t, c_int) -> c_int,
            (start, bytes, rights, page, flags), -1)
    })
}

/// mprotect(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, bytes: size_t, rights: c_int) -> c_int {
    protect::protect(
        start.addr(),
        bytes,
        rights,
        None,
        || next!(c"mprotect": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, rights), -1),
    )
}

/// pkey_mprotect(2): the same, and the key is the mapping's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    key: c_int,
) -> c_int {
    protect::protect(start.addr(), bytes, rights, Some(key), || {
        next!(c"pkey_mprotect": fn(*mut c_void, size_t, c_int, c_int) -> c_int,
              (start, bytes, rights, key), -1)
    })
}

/// msync(2): memory has nothing to write back.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(start: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    advice::synchronize(
        start.addr(),
        bytes,
        flags,
        || next!(c"msync": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, flags), -1),
    )
}

/// madvise(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(start: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    advice::advise(
        start.addr(),
        bytes,
        advice,
        || next!(c"madvise": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, advice), -1),
    )
}

/// mlock(2): locks mappings, not pages.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(start: *const c_void, bytes: size_t) -> c_int {
    advice::lock(
        start.addr(),
        bytes,
        Marks::LOCKED,
        || next!(c"mlock": fn(*const c_void, size_t) -> c_int, (start, bytes), -1),
    )
}

/// mlock2(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(start: *const c_void, bytes: size_t, flags: c_uint) -> c_int {
    advice::lock(
        start.addr(),
        bytes,
        advice::locks_of(flags),
        || next!(c"mlock2": fn(*const c_void, size_t, c_uint) -> c_int, (start, bytes, flags), -1),
    )
}

/// munlock(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlock(start: *const c_void, bytes: size_t) -> c_int {
    advice::lock(
        start.addr(),
        bytes,
        Marks::none(),
        || next!(c"munlock": fn(*const c_void, size_t) -> c_int, (start, bytes), -1),
    )
}

/// mseal(2): newer than most libcs.
///
/// # Safety
/// As the call's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mseal(start: *mut c_void, bytes: size_t, flags: c_ulong) -> c_int {
    let words = [start.addr(), bytes, flags as usize];
    // SAFETY: the arguments are those that the program has passed for this call.
    advice::seal(words[0], bytes, || unsafe { system_call(libc::SYS_mseal, words) as c_int })
}

/// mlockall(2): would count what is kept.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    advice::lock_all(flags, || next!(c"mlockall": fn(c_int) -> c_int, (flags), -1))
}

/// munlockall(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlockall() -> c_int {
    advice::unlock_all(|| next!(c"munlockall": fn() -> c_int, (), -1))
}
