//! What /proc shows of System V objects.
//!
//! /proc/sysvipc tells of the kernel's; where a kind has others in the pool its file is not there,
//! so that `ipcs` and its like ask by *_STAT and *_INFO instead. And /proc/PID/map_files has the
//! files behind mappings: behind an attach it is the whole pool, which is not to be had so.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use libc::{FILE, c_char, c_int, mode_t};

use vshmem_ipc::{Errno, Kind};
use vshmem_session::Owner;

use vshmem_process::next::{next, system_call};
use vshmem_process::posix::adopt;
use vshmem_process::session::route;
use vshmem_process::{errno, process};

/// Whether the kernel's list of a kind would not tell all.
fn incomplete(kind: Kind) -> bool {
    route::owner(kind) != Owner::Kernel
}

/// A path that the kernel has read just now. Before that, the pointer may be anything: EFAULT is
/// for the kernel to say.
fn read_by_kernel<'a>(path: *const c_char) -> &'a [u8] {
    // SAFETY: a call has succeeded with it, so it leads to a C string; the program keeps it for the
    // time of its call.
    unsafe { CStr::from_ptr(path) }.to_bytes()
}

/// Whether a path is that of a list of objects which does not tell all.
fn is_hidden(path: &[u8]) -> bool {
    match path.strip_prefix(b"/proc/sysvipc") {
        None => false,
        Some(b"/shm") => incomplete(Kind::Segment),
        Some(b"/sem") => incomplete(Kind::Semaphore),
        Some(b"/msg") => incomplete(Kind::Queue),
        Some(_) => Kind::ALL.into_iter().all(incomplete),
    }
}

/// Whether a path may lead to the file behind a mapping: it ends with the addresses.
fn names_mapping(path: &[u8]) -> bool {
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut ends = last.split(|&byte| byte == b'-');
    let is_address = |end: Option<&[u8]>| {
        end.is_some_and(|end| !end.is_empty() && end.iter().all(u8::is_ascii_hexdigit))
    };
    is_address(ends.next()) && is_address(ends.next()) && ends.next().is_none()
}

/// Whether a path may lead to a descriptor of a process, which may be an object.
fn names_descriptor(path: &[u8]) -> bool {
    let is_theirs = path.starts_with(b"/dev/fd/")
        || path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/");
    is_theirs && adopt::is_expected()
}

/// Opens a file by whatever call. A list that does not tell all is not there. The pool's file, by
/// way of a mapping of it, is refused as the kernel refuses those who may not open any file so.
pub fn opening(path: *const c_char, call: impl FnOnce() -> c_int) -> c_int {
    let file = call();
    if file < 0 {
        return file;
    }
    let path = read_by_kernel(path);
    let refusal = if is_hidden(path) {
        Errno::NOENT
    } else if names_mapping(path) && errno::untouched(|| is_the_pools(file)) {
        Errno::PERM
    } else {
        if names_descriptor(path) {
            adopt::adopt(file);
        }
        return file;
    };
    // SAFETY: the descriptor was just opened, and no other code knows it.
    unsafe { system_call(libc::SYS_close, [file as usize]) };
    errno::set(refusal);
    -1
}

/// Opens a stream of a file by whatever call.
fn opening_stream(path: *const c_char, call: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let stream = call();
    // freopen(3) without a path opens none.
    if stream.is_null() || path.is_null() || !is_hidden(read_by_kernel(path)) {
        return stream;
    }
    // SAFETY: the stream was just opened, and no other code knows it.
    unsafe { libc::fclose(stream) };
    errno::set(Errno::NOENT);
    std::ptr::null_mut()
}

/// Whether a descriptor is of the pool's file.
fn is_the_pools(file: c_int) -> bool {
    let Some(session) = process::joined() else { return false };
    let identity = |file: c_int| {
        // SAFETY: the descriptor is only borrowed for one call.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        rustix::fs::fstat(file).ok().map(|state| (state.st_dev, state.st_ino))
    };
    let pool = identity(session.link().descriptor());
    pool.is_some() && pool == identity(file)
}

macro_rules! opens_stream {
    ($($name:ident $symbol:literal $page:literal ($($word:ident: $kind:ty),*)),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char, mode: *const c_char, $($word: $kind,)*
        ) -> *mut FILE {
            opening_stream(path, || {
                next!($symbol: fn(*const c_char, *const c_char $(, $kind)*) -> *mut FILE,
                      (path, mode $(, $word)*), std::ptr::null_mut())
            })
        }
    )*};
}
opens_stream!(
    fopen c"fopen" "fopen(3)." (),
    fopen64 c"fopen64" "fopen(3)." (),
    freopen c"freopen" "freopen(3)." (stream: *mut FILE),
    freopen64 c"freopen64" "freopen(3)." (stream: *mut FILE)
);

macro_rules! opens {
    ($($name:ident $symbol:literal $page:literal ($($word:ident: $kind:ty),*)),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($word: $kind,)* path: *const c_char, flags: c_int, mode: mode_t,
        ) -> c_int {
            opening(path, || {
                next!($symbol: fn($($kind,)* *const c_char, c_int, mode_t) -> c_int,
                      ($($word,)* path, flags, mode), -1)
            })
        }
    )*};
}
opens!(
    open c"open" "open(2)." (),
    open64 c"open64" "open(2)." (),
    openat c"openat" "openat(2)." (folder: c_int),
    openat64 c"openat64" "openat(2)." (folder: c_int)
);

macro_rules! opens_existing {
    ($($name:ident $symbol:literal ($($word:ident: $kind:ty),*)),*) => {$(
        /// open(2), as a program calls it that was compiled with _FORTIFY_SOURCE.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($word: $kind,)* path: *const c_char, flags: c_int) -> c_int {
            opening(path, || {
                next!($symbol: fn($($kind,)* *const c_char, c_int) -> c_int,
                      ($($word,)* path, flags), -1)
            })
        }
    )*};
}
opens_existing!(
    __open_2 c"__open_2" (),
    __open64_2 c"__open64_2" (),
    __openat_2 c"__openat_2" (folder: c_int),
    __openat64_2 c"__openat64_2" (folder: c_int)
);

/// Whether a file can be used, by whatever call.
fn can_use(path: *const c_char, call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 && is_hidden(read_by_kernel(path)) {
        errno::set(Errno::NOENT);
        return -1;
    }
    result
}

macro_rules! can_use {
    ($($name:ident $symbol:literal $page:literal
        ($($word:ident: $kind:ty),*) ($($last:ident: $last_kind:ty),*)),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($word: $kind,)* path: *const c_char, mode: c_int, $($last: $last_kind,)*
        ) -> c_int {
            can_use(path, || {
                next!($symbol: fn($($kind,)* *const c_char, c_int $(, $last_kind)*) -> c_int,
                      ($($word,)* path, mode $(, $last)*), -1)
            })
        }
    )*};
}
can_use!(
    access c"access" "access(2)." () (),
    euidaccess c"euidaccess" "euidaccess(3)." () (),
    eaccess c"eaccess" "euidaccess(3)." () (),
    faccessat c"faccessat" "faccessat(2)." (folder: c_int) (flags: c_int)
);
