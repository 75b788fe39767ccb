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
use vshmem_process::one_host::paths;
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

/// Whether a file can be used, by whatever call.
fn can_use(path: *const c_char, call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 && is_hidden(read_by_kernel(path)) {
        errno::set(Errno::NOENT);
        return -1;
    }
    result
}

/// Symbols that take a path: the words in front of it, and those behind it; what they answer, by
/// which of the ways above, and what when there is no such symbol behind ours.
macro_rules! by_path {
    ($way:ident -> $answer:ty, $missing:expr;
     $($name:ident $symbol:literal $page:literal
       ($($before:ident: $before_kind:ty),*) ($($behind:ident: $behind_kind:ty),*)),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_kind,)* path: *const c_char, $($behind: $behind_kind),*
        ) -> $answer {
            paths::with(path, $missing, |path| $way(path, || {
                next!($symbol: fn($($before_kind,)* *const c_char, $($behind_kind),*) -> $answer,
                      ($($before,)* path, $($behind),*), $missing)
            }))
        }
    )*};
}

by_path!(opening_stream -> *mut FILE, std::ptr::null_mut();
    fopen c"fopen" "fopen(3)." () (mode: *const c_char),
    fopen64 c"fopen64" "fopen(3)." () (mode: *const c_char),
    freopen c"freopen" "freopen(3)." () (mode: *const c_char, stream: *mut FILE),
    freopen64 c"freopen64" "freopen(3)." () (mode: *const c_char, stream: *mut FILE)
);

// The last four are open(2) as a program calls it that was compiled with _FORTIFY_SOURCE.
by_path!(opening -> c_int, -1;
    open c"open" "open(2)." () (flags: c_int, mode: mode_t),
    open64 c"open64" "open(2)." () (flags: c_int, mode: mode_t),
    openat c"openat" "openat(2)." (folder: c_int) (flags: c_int, mode: mode_t),
    openat64 c"openat64" "openat(2)." (folder: c_int) (flags: c_int, mode: mode_t),
    __open_2 c"__open_2" "open(2)." () (flags: c_int),
    __open64_2 c"__open64_2" "open(2)." () (flags: c_int),
    __openat_2 c"__openat_2" "openat(2)." (folder: c_int) (flags: c_int),
    __openat64_2 c"__openat64_2" "openat(2)." (folder: c_int) (flags: c_int)
);

by_path!(can_use -> c_int, -1;
    access c"access" "access(2)." () (mode: c_int),
    euidaccess c"euidaccess" "euidaccess(3)." () (mode: c_int),
    eaccess c"eaccess" "euidaccess(3)." () (mode: c_int),
    faccessat c"faccessat" "faccessat(2)." (folder: c_int) (mode: c_int, flags: c_int)
);
