//! open(2), fopen(3), access(2) and their kin: what /proc shows of System V objects, and paths that
//! lead to objects of POSIX.
//!
//! /proc/sysvipc tells of the kernel's; where a kind has others in the pool its file is not there,
//! so that `ipcs` and its like ask by *_STAT and *_INFO instead. And /proc/PID/map_files has the
//! files behind mappings: behind an attach it is the whole pool, which is not to be had so.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use libc::{FILE, c_char, c_int, mode_t};

use vshmem_ipc::{Errno, Kind};
use vshmem_session::Owner;

use crate::intercept::stream;
use vshmem_process::dev_shm::calls::{self, Path};
use vshmem_process::dev_shm::find;
use vshmem_process::dev_shm::open::Opening;
use vshmem_process::next::{next, system_call};
use vshmem_process::one_host::paths as one_host;
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

/// Opens a file by whatever call: an object, or else the kernel's file.
#[inline]
pub fn opening(how: Opening, call: impl FnOnce() -> c_int) -> c_int {
    how.of_object().map(stream::note).unwrap_or_else(|| {
        let file = one_host::opened(how.path, how.flags, call());
        if file >= 0 {
            if how.flags & (libc::O_DIRECTORY | libc::O_PATH) != 0 {
                find::note_opened(file);
            }
            return checked(how.path, file);
        }
        how.of_object_after_failure().map_or(file, stream::note)
    })
}

/// What has been opened. A list that does not tell all is not there. The pool's file, by way of a
/// mapping of it, is refused as the kernel refuses those who may not open any file so.
fn checked(path: *const c_char, file: c_int) -> c_int {
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

/// Opens a stream of a file by whatever call: of an object, or else of the kernel's file.
fn opening_stream(
    path: *const c_char,
    mode: *const c_char,
    _none: *mut FILE,
    call: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let how = Opening::of_stream(path, mode);
    if let Some(file) = how.and_then(|how| how.of_object()) {
        return stream::of_object(file, mode);
    }
    let stream = call();
    if let Some(file) = one_host::opened_for_stream(path, stream.is_null()) {
        return stream::of_file(file, mode, stream);
    }
    if !stream.is_null() {
        return checked_stream(path, stream);
    }
    match how.and_then(|how| how.of_object_after_failure()) {
        Some(file) => stream::of_object(file, mode),
        None => stream,
    }
}

/// A stream that is opened anew.
fn reopening_stream(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
    call: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    // Without a path it opens none.
    if path.is_null() {
        return call();
    }
    let how = Opening::of_stream(path, mode);
    if let Some(file) = how.and_then(|how| how.of_object()) {
        let failed = std::ptr::null_mut();
        return if file >= 0 { stream::reopen_standard(file, stream) } else { failed };
    }
    checked_stream(path, call())
}

fn checked_stream(path: *const c_char, stream: *mut FILE) -> *mut FILE {
    if stream.is_null() || !is_hidden(read_by_kernel(path)) {
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
pub fn can_use(path: Path, mode: c_int, call: impl FnOnce() -> c_int) -> c_int {
    calls::access(path, mode, || {
        let result = call();
        if result == 0 && is_hidden(read_by_kernel(path.text)) {
            errno::set(Errno::NOENT);
            return -1;
        }
        result
    })
}

macro_rules! streams {
    ($way:ident: $($name:ident $symbol:literal $page:literal
                   ($path:ident, $mode:ident $(, $stream:ident)?)),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $path: *const c_char, $mode: *const c_char $(, $stream: *mut FILE)?
        ) -> *mut FILE {
            let stream: *mut FILE = std::ptr::null_mut();
            $(let stream = if $stream.is_null() { stream } else { $stream };)?
            // fopen(3) takes no third argument, and sees none.
            $way($path, $mode, stream, || {
                next!($symbol: fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE,
                      ($path, $mode, stream), std::ptr::null_mut())
            })
        }
    )*};
}

streams!(opening_stream:
    fopen c"fopen" "fopen(3)." (path, mode),
    fopen64 c"fopen64" "fopen(3)." (path, mode)
);
streams!(reopening_stream:
    freopen c"freopen" "freopen(3)." (path, mode, stream),
    freopen64 c"freopen64" "freopen(3)." (path, mode, stream)
);

/// Symbols that open a file: their arguments, and what they are to open(2).
macro_rules! opens {
    ($($name:ident $symbol:literal $page:literal ($($argument:ident: $kind:ty),*)
       $at:expr, $path:ident, $flags:expr, $mode:expr;)*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            opening(Opening { at: $at, path: $path, flags: $flags, mode: $mode }, || {
                next!($symbol: fn($($kind),*) -> c_int, ($($argument),*), -1)
            })
        }
    )*};
}

const HERE: c_int = libc::AT_FDCWD;
const NEW: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

// The last four are open(2) as a program calls it that was compiled with _FORTIFY_SOURCE.
opens! {
    open c"open" "open(2)." (path: *const c_char, flags: c_int, mode: mode_t)
        HERE, path, flags, mode;
    open64 c"open64" "open(2)." (path: *const c_char, flags: c_int, mode: mode_t)
        HERE, path, flags, mode;
    openat c"openat" "openat(2)."
        (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t)
        folder, path, flags, mode;
    openat64 c"openat64" "openat(2)."
        (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t)
        folder, path, flags, mode;
    creat c"creat" "creat(2)." (path: *const c_char, mode: mode_t) HERE, path, NEW, mode;
    creat64 c"creat64" "creat(2)." (path: *const c_char, mode: mode_t) HERE, path, NEW, mode;
    __open_2 c"__open_2" "open(2)." (path: *const c_char, flags: c_int) HERE, path, flags, 0;
    __open64_2 c"__open64_2" "open(2)." (path: *const c_char, flags: c_int) HERE, path, flags, 0;
    __openat_2 c"__openat_2" "openat(2)." (folder: c_int, path: *const c_char, flags: c_int)
        folder, path, flags, 0;
    __openat64_2 c"__openat64_2" "openat(2)." (folder: c_int, path: *const c_char, flags: c_int)
        folder, path, flags, 0;
}

/// Symbols that say whether a file can be used.
macro_rules! uses {
    ($($name:ident $symbol:literal $page:literal ($($argument:ident: $kind:ty),*)
       $path:expr, $mode:expr;)*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            can_use($path, $mode, || {
                next!($symbol: fn($($kind),*) -> c_int, ($($argument),*), -1)
            })
        }
    )*};
}

uses! {
    access c"access" "access(2)." (path: *const c_char, mode: c_int) Path::here(path), mode;
    euidaccess c"euidaccess" "euidaccess(3)." (path: *const c_char, mode: c_int)
        Path::here(path), mode & 7;
    eaccess c"eaccess" "euidaccess(3)." (path: *const c_char, mode: c_int)
        Path::here(path), mode & 7;
    faccessat c"faccessat" "faccessat(2)."
        (folder: c_int, path: *const c_char, mode: c_int, flags: c_int)
        Path::from(folder, path, flags), mode;
}
