//! opendir(3), readdir(3), scandir(3), glob(3) and their kin: what they show of /dev/shm.

use std::ffi::{CStr, c_long, c_void};

use libc::{DIR, c_char, c_int, dirent, dirent64, size_t};

use crate::intercept::paths;
use vshmem_process::dev_shm::entries;
use vshmem_process::dev_shm::find;
use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::posix::directory;

/// opendir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    noted(next!(c"opendir": fn(*const c_char) -> *mut DIR, (path), std::ptr::null_mut()))
}

/// fdopendir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopendir(file: c_int) -> *mut DIR {
    noted(next!(c"fdopendir": fn(c_int) -> *mut DIR, (file), std::ptr::null_mut()))
}

fn noted(stream: *mut DIR) -> *mut DIR {
    if !stream.is_null() && find::in_use() {
        // SAFETY: libc has just opened it.
        let file = unsafe { libc::dirfd(stream) };
        errno::untouched(|| entries::opened(stream, file));
    }
    stream
}

/// closedir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(stream: *mut DIR) -> c_int {
    errno::untouched(|| entries::close(stream));
    next!(c"closedir": fn(*mut DIR) -> c_int, (stream), -1)
}

/// readdir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir(stream: *mut DIR) -> *mut dirent {
    read(stream).cast()
}

/// readdir(3): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir64(stream: *mut DIR) -> *mut dirent64 {
    read(stream)
}

#[inline]
fn read(stream: *mut DIR) -> *mut dirent64 {
    entries::read(
        stream,
        || next!(c"readdir64": fn(*mut DIR) -> *mut dirent64, (stream), std::ptr::null_mut()),
    )
}

/// readdir_r(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir_r(
    stream: *mut DIR,
    into: *mut dirent64,
    result: *mut *mut dirent64,
) -> c_int {
    let call = || {
        next!(c"readdir64_r": fn(*mut DIR, *mut dirent64, *mut *mut dirent64) -> c_int,
              (stream, into, result), libc::ENOSYS)
    };
    let mut failure = 0;
    let entry = entries::read(stream, || {
        failure = call();
        if failure != 0 {
            errno::set(vshmem_ipc::Errno::from_raw_os_error(failure));
        }
        // SAFETY: the call has filled it in.
        unsafe { *result }
    });
    if failure == 0 && !entry.is_null() && entry != into {
        // SAFETY: an entry of ours is a whole one, and there is room for one by the contract.
        unsafe { into.write(*entry) };
    }
    // SAFETY: by readdir_r's contract.
    unsafe { *result = if entry.is_null() { entry } else { into } };
    failure
}

/// readdir_r(3): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir64_r(
    stream: *mut DIR,
    into: *mut dirent64,
    result: *mut *mut dirent64,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { readdir_r(stream, into, result) }
}

/// rewinddir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(stream: *mut DIR) {
    next!(c"rewinddir": fn(*mut DIR) -> (), (stream), ());
    errno::untouched(|| entries::rewound(stream));
}

/// telldir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(stream: *mut DIR) -> c_long {
    entries::tell(stream, || next!(c"telldir": fn(*mut DIR) -> c_long, (stream), -1))
}

/// seekdir(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(stream: *mut DIR, place: c_long) {
    entries::seek(
        stream,
        place,
        || next!(c"seekdir": fn(*mut DIR, c_long) -> (), (stream, place), ()),
    );
}

type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;
type Order = Option<unsafe extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int>;
type Entries = *mut *mut *mut dirent64;

/// Whether libc, which would read the kernel's entries by itself, is asked for /dev/shm.
fn is_directory(at: c_int, path: *const c_char) -> bool {
    // SAFETY: the caller passes a C string, by scandir(3)'s contract.
    let path = || unsafe { CStr::from_ptr(path) };
    find::in_use() && !path().is_empty() && directory::is_at(at, path())
}

/// scandir(3) of /dev/shm.
///
/// # Safety
/// As libc's.
unsafe fn scan(into: Entries, filter: Filter, order: Order) -> c_int {
    // SAFETY: by this function's contract; what `copies` takes is given to the caller or back.
    unsafe {
        let stream = opendir(directory::PATH.as_ptr());
        if stream.is_null() {
            return -1;
        }
        let mut copies: Vec<*mut dirent64> = Vec::new();
        loop {
            let entry = readdir64(stream);
            if entry.is_null() {
                break;
            }
            if filter.is_none_or(|filter| filter(entry) != 0) {
                let copy: *mut dirent64 = libc::malloc(size_of::<dirent64>()).cast();
                if !copy.is_null() {
                    // An entry of the kernel's may end before a whole one would.
                    let bytes = usize::from((*entry).d_reclen).min(size_of::<dirent64>());
                    std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copy.cast(), bytes);
                    copies.push(copy);
                }
            }
        }
        closedir(stream);
        hand_over(&copies, into, order)
    }
}

/// # Safety
/// As scandir(3) has it.
unsafe fn hand_over(copies: &[*mut dirent64], into: Entries, order: Order) -> c_int {
    let bytes = size_of_val(copies);
    // SAFETY: the list has room for all; it is the caller's from here on.
    unsafe {
        let list: *mut *mut dirent64 = libc::malloc(bytes.max(1)).cast();
        if list.is_null() {
            copies.iter().for_each(|copy| libc::free(copy.cast()));
            return -1;
        }
        std::ptr::copy_nonoverlapping(copies.as_ptr(), list, copies.len());
        if let Some(order) = order {
            type Compare = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
            // As libc does: pointers are passed in another type.
            let order: Compare = std::mem::transmute(order);
            libc::qsort(list.cast(), copies.len(), size_of::<*mut dirent64>(), Some(order));
        }
        *into = list;
    }
    copies.len() as c_int
}

macro_rules! scans {
    ($($name:ident $symbol:literal ($($at:ident)?) $from:expr;)*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($at: c_int,)? path: *const c_char, into: Entries, filter: Filter, order: Order
        ) -> c_int {
            if is_directory($from, path) {
                // SAFETY: the same contract.
                return unsafe { scan(into, filter, order) };
            }
            next!($symbol: fn($(scans!(int $at),)? *const c_char, Entries, Filter, Order) -> c_int,
                  ($($at,)? path, into, filter, order), -1)
        }
    )*};
    (int $at:ident) => { c_int };
}

scans! {
    scandir c"scandir" () libc::AT_FDCWD;
    scandir64 c"scandir64" () libc::AT_FDCWD;
    scandirat c"scandirat" (at) at;
    scandirat64 c"scandirat64" (at) at;
}

/// `glob_t`.
#[repr(C)]
pub struct Glob {
    count: size_t,
    paths: *mut *mut c_char,
    offset: size_t,
    flags: c_int,
    close: Option<unsafe extern "C" fn(*mut DIR) -> c_int>,
    read: Option<unsafe extern "C" fn(*mut DIR) -> *mut dirent64>,
    open: Option<unsafe extern "C" fn(*const c_char) -> *mut DIR>,
    link_state: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
    state: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
}

/// Whether a pattern is of names in /dev/shm.
fn is_of_directory(pattern: *const c_char) -> bool {
    // SAFETY: a C string, by glob(3)'s contract.
    let pattern = unsafe { CStr::from_ptr(pattern) }.to_bytes();
    let folder = match pattern.iter().rposition(|&byte| byte == b'/') {
        None => b".",
        Some(slash) => &pattern[..slash],
    };
    let mut text = [0; 256];
    let Some(place) = text.get_mut(..folder.len()) else { return false };
    place.copy_from_slice(folder);
    CStr::from_bytes_until_nul(&text)
        .is_ok_and(|folder| !folder.is_empty() && directory::is_at(libc::AT_FDCWD, folder))
}

type Failed = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

macro_rules! globs {
    ($($name:ident $symbol:literal),*) => {$(
        /// glob(3), with this library's calls where it would read /dev/shm by itself.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pattern: *const c_char, flags: c_int, failed: Failed, into: *mut Glob
        ) -> c_int {
            let mut flags = flags;
            if find::in_use() && flags & libc::GLOB_ALTDIRFUNC == 0 && is_of_directory(pattern) {
                flags |= libc::GLOB_ALTDIRFUNC;
                // SAFETY: by glob(3)'s contract.
                let into = unsafe { &mut *into };
                into.close = Some(closedir);
                into.read = Some(readdir64);
                into.open = Some(opendir);
                into.state = Some(paths::stat);
                into.link_state = Some(paths::lstat);
            }
            next!($symbol: fn(*const c_char, c_int, Failed, *mut Glob) -> c_int,
                  (pattern, flags, failed, into), libc::GLOB_NOSPACE)
        }
    )*};
}

globs!(glob c"glob", glob64 c"glob64");
