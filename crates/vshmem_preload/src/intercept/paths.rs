//! Calls on a file by its path: stat(2), access(2), unlink(2), rename(2) and their kin.

use libc::{c_char, c_int, c_uint, c_void, gid_t, mode_t, off_t, size_t, ssize_t, uid_t};

use vshmem_process::dev_shm::calls::{self, Path};
use vshmem_process::dev_shm::{find, renaming, status};
use vshmem_process::next::next;

/// Symbols with C's arguments: where the path is in them, and what is done with it. `call` makes
/// the call as it is.
macro_rules! symbols {
    ($($name:ident $symbol:literal ($($argument:ident: $kind:ty),*) -> $answer:ty:
       |$call:ident| $done:expr;)*) => {$(
        #[doc = concat!(stringify!($name), ": see its man page.")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $answer {
            let $call = || next!($symbol: fn($($kind),*) -> $answer, ($($argument),*), -1);
            $done
        }
    )*};
}

symbols! {
    stat c"stat" (path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::here(path), into, call);
    stat64 c"stat64" (path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::here(path), into, call);
    lstat c"lstat" (path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::of_link(path), into, call);
    lstat64 c"lstat64" (path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::of_link(path), into, call);
    // Before glibc 2.33.
    __xstat c"__xstat" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::here(path), into, call);
    __xstat64 c"__xstat64" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::here(path), into, call);
    __lxstat c"__lxstat" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::of_link(path), into, call);
    __lxstat64 c"__lxstat64" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int:
        |call| calls::stat(Path::of_link(path), into, call);

    unlink c"unlink" (path: *const c_char) -> c_int:
        |call| calls::unlink(Path::of_link(path), call);
    remove c"remove" (path: *const c_char) -> c_int:
        |call| calls::unlink(Path::of_link(path), call);
    rmdir c"rmdir" (path: *const c_char) -> c_int:
        |call| calls::directory_alone(Path::of_link(path), call);
    unlinkat c"unlinkat" (at: c_int, path: *const c_char, flags: c_int) -> c_int:
        |call| unlink_at(at, path, flags, call);

    rename c"rename" (from: *const c_char, to: *const c_char) -> c_int:
        |call| renaming::rename(Path::of_link(from), Path::of_link(to), 0, call);
    renameat c"renameat" (
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char
    ) -> c_int:
        |call| renaming::rename(link_from(at, from), link_from(to_at, to), 0, call);
    renameat2 c"renameat2" (
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint
    ) -> c_int:
        |call| renaming::rename(link_from(at, from), link_from(to_at, to), flags, call);
    link c"link" (from: *const c_char, to: *const c_char) -> c_int:
        |call| renaming::link(Path::of_link(from), Path::of_link(to), call);
    linkat c"linkat" (
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int
    ) -> c_int:
        |call| link_at((at, from), (to_at, to), flags, call);

    truncate c"truncate" (path: *const c_char, bytes: off_t) -> c_int:
        |call| calls::truncate(path, bytes, call);
    truncate64 c"truncate64" (path: *const c_char, bytes: off_t) -> c_int:
        |call| calls::truncate(path, bytes, call);
    chmod c"chmod" (path: *const c_char, mode: mode_t) -> c_int:
        |call| calls::set_mode(Path::here(path), mode, call);
    lchmod c"lchmod" (path: *const c_char, mode: mode_t) -> c_int:
        |call| calls::set_mode(Path::of_link(path), mode, call);
    fchmodat c"fchmodat" (
        at: c_int, path: *const c_char, mode: mode_t, flags: c_int
    ) -> c_int:
        |call| calls::set_mode(Path::from(at, path, flags), mode, call);
    chown c"chown" (path: *const c_char, uid: uid_t, gid: gid_t) -> c_int:
        |call| calls::set_owner(Path::here(path), uid, gid, call);
    lchown c"lchown" (path: *const c_char, uid: uid_t, gid: gid_t) -> c_int:
        |call| calls::set_owner(Path::of_link(path), uid, gid, call);
    fchownat c"fchownat" (
        at: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int
    ) -> c_int:
        |call| calls::set_owner(Path::from(at, path, flags), uid, gid, call);

    utime c"utime" (path: *const c_char, times: *const c_void) -> c_int:
        |call| calls::set_times(Path::here(path), call);
    utimes c"utimes" (path: *const c_char, times: *const c_void) -> c_int:
        |call| calls::set_times(Path::here(path), call);
    lutimes c"lutimes" (path: *const c_char, times: *const c_void) -> c_int:
        |call| calls::set_times(Path::of_link(path), call);
    futimesat c"futimesat" (at: c_int, path: *const c_char, times: *const c_void) -> c_int:
        |call| calls::set_times(Path::from(at, path, 0), call);
    utimensat c"utimensat" (
        at: c_int, path: *const c_char, times: *const c_void, flags: c_int
    ) -> c_int:
        |call| calls::set_times(Path::from(at, path, flags), call);

    readlink c"readlink" (path: *const c_char, into: *mut c_char, bytes: size_t) -> ssize_t:
        |call| calls::read_link(Path::of_link(path), (into, bytes), call);
    readlinkat c"readlinkat" (
        at: c_int, path: *const c_char, into: *mut c_char, bytes: size_t
    ) -> ssize_t:
        |call| calls::read_link(link_from(at, path), (into, bytes), call);
    // As a program calls them that was compiled with _FORTIFY_SOURCE.
    __readlink_chk c"__readlink_chk" (
        path: *const c_char, into: *mut c_char, bytes: size_t, room: size_t
    ) -> ssize_t:
        |call| calls::read_link(Path::of_link(path), (into, bytes), call);
    __readlinkat_chk c"__readlinkat_chk" (
        at: c_int, path: *const c_char, into: *mut c_char, bytes: size_t, room: size_t
    ) -> ssize_t:
        |call| calls::read_link(link_from(at, path), (into, bytes), call);

    mkdir c"mkdir" (path: *const c_char, mode: mode_t) -> c_int:
        |call| calls::make_other(Path::here(path), call);
    mkdirat c"mkdirat" (at: c_int, path: *const c_char, mode: mode_t) -> c_int:
        |call| calls::make_other(link_from(at, path), call);
    mkfifo c"mkfifo" (path: *const c_char, mode: mode_t) -> c_int:
        |call| calls::make_other(Path::here(path), call);
    symlink c"symlink" (to: *const c_char, path: *const c_char) -> c_int:
        |call| calls::make_other(Path::here(path), call);
    symlinkat c"symlinkat" (to: *const c_char, at: c_int, path: *const c_char) -> c_int:
        |call| calls::make_other(link_from(at, path), call);

    getxattr c"getxattr" (
        path: *const c_char, name: *const c_char, into: *mut c_void, bytes: size_t
    ) -> ssize_t:
        |call| calls::attribute(Path::here(path), name, call);
    lgetxattr c"lgetxattr" (
        path: *const c_char, name: *const c_char, into: *mut c_void, bytes: size_t
    ) -> ssize_t:
        |call| calls::attribute(Path::of_link(path), name, call);
    listxattr c"listxattr" (path: *const c_char, into: *mut c_char, bytes: size_t) -> ssize_t:
        |call| calls::attributes(Path::here(path), call);
    llistxattr c"llistxattr" (path: *const c_char, into: *mut c_char, bytes: size_t) -> ssize_t:
        |call| calls::attributes(Path::of_link(path), call);

    statfs c"statfs" (path: *const c_char, into: *mut libc::statfs) -> c_int:
        |call| status::by_path(Path::here(path), into, call);
    statfs64 c"statfs64" (path: *const c_char, into: *mut libc::statfs) -> c_int:
        |call| status::by_path(Path::here(path), into, call);
    statvfs c"statvfs" (path: *const c_char, into: *mut libc::statvfs) -> c_int:
        |call| status::by_path(Path::here(path), into, call);
    statvfs64 c"statvfs64" (path: *const c_char, into: *mut libc::statvfs) -> c_int:
        |call| status::by_path(Path::here(path), into, call);

    fstatfs c"fstatfs" (file: c_int, into: *mut libc::statfs) -> c_int:
        |call| status::by_descriptor(file, into, call);
    fstatfs64 c"fstatfs64" (file: c_int, into: *mut libc::statfs) -> c_int:
        |call| status::by_descriptor(file, into, call);
    fstatvfs c"fstatvfs" (file: c_int, into: *mut libc::statvfs) -> c_int:
        |call| status::by_descriptor(file, into, call);
    fstatvfs64 c"fstatvfs64" (file: c_int, into: *mut libc::statvfs) -> c_int:
        |call| status::by_descriptor(file, into, call);

    chdir c"chdir" (path: *const c_char) -> c_int:
        |call| calls::directory_alone(Path::here(path), || changed_directory(call));
}

/// A path whose last link is not followed.
pub fn link_from(at: c_int, path: *const c_char) -> Path {
    Path::from(at, path, libc::AT_SYMLINK_NOFOLLOW)
}

/// unlinkat(2), by whatever call.
pub fn unlink_at(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let path = link_from(at, path);
    if flags & libc::AT_REMOVEDIR != 0 {
        calls::directory_alone(path, call)
    } else {
        calls::unlink(path, call)
    }
}

/// linkat(2), by whatever call.
pub fn link_at(
    (at, from): (c_int, *const c_char),
    (to_at, to): (c_int, *const c_char),
    flags: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let follows = flags & libc::AT_SYMLINK_FOLLOW != 0;
    renaming::link(Path { at, text: from, follows }, link_from(to_at, to), call)
}

/// chdir(2), by whatever call.
pub fn changed_directory(call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 {
        vshmem_process::errno::untouched(find::note_current_directory);
    }
    result
}

/// realpath(3), by whatever call.
///
/// # Safety
/// As libc's.
unsafe fn true_path(
    path: *const c_char,
    into: *mut c_char,
    call: impl FnOnce() -> *mut c_char,
) -> *mut c_char {
    let found = call();
    let mut name = [0; libc::PATH_MAX as usize];
    if path.is_null() || !calls::true_path(path, found.is_null(), &mut name) {
        return found;
    }
    // SAFETY: `name` is a C string of at most PATH_MAX bytes, for which `into` has room by
    // realpath(3)'s contract; what libc has made without it is free's.
    unsafe {
        if into.is_null() {
            libc::free(found.cast());
            return libc::strdup(name.as_ptr().cast());
        }
        libc::strcpy(into, name.as_ptr().cast())
    }
}

/// realpath(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char {
    let call = || {
        next!(c"realpath": fn(*const c_char, *mut c_char) -> *mut c_char, (path, into),
              std::ptr::null_mut())
    };
    // SAFETY: the same contract.
    unsafe { true_path(path, into, call) }
}

/// realpath(3) as a program calls it that was compiled with _FORTIFY_SOURCE.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    into: *mut c_char,
    room: size_t,
) -> *mut c_char {
    let call = || {
        next!(c"__realpath_chk": fn(*const c_char, *mut c_char, size_t) -> *mut c_char,
              (path, into, room), std::ptr::null_mut())
    };
    // SAFETY: the same contract; libc's call has checked the room.
    unsafe { true_path(path, into, call) }
}

/// canonicalize_file_name(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { realpath(path, std::ptr::null_mut()) }
}
