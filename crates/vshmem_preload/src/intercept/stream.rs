//! fdopen(3) of a descriptor of an object: libc's own streams call the kernel inside libc, where
//! the file behind the descriptor is empty. So such a stream has the library's calls behind it.
//! What libc cannot do then is to tell its descriptor (fileno(3) says EBADF).

use std::os::raw::c_void;

use libc::{FILE, c_char, c_int, off_t, size_t, ssize_t};

use vshmem_process::next::next;
use vshmem_process::object_descriptors::open;
use vshmem_process::posix::transfer::{Transfer, Way};
use vshmem_process::posix::{follow, seek};

/// `cookie_io_functions_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut u8, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const u8, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

const FUNCTIONS: Functions =
    Functions { read: read_stream, write: write_stream, seek: seek_stream, close: close_stream };

/// A cookie is the number itself.
fn file_of(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
}

unsafe extern "C" fn read_stream(cookie: *mut c_void, to: *mut u8, bytes: size_t) -> ssize_t {
    Transfer { file: file_of(cookie), way: Way::Read, at: None }.of(to, bytes, || -1)
}

unsafe extern "C" fn write_stream(cookie: *mut c_void, from: *const u8, bytes: size_t) -> ssize_t {
    let transfer = Transfer { file: file_of(cookie), way: Way::Write, at: None };
    // 0 is how fopencookie(3) has an error said.
    transfer.of(from.cast_mut(), bytes, || -1).max(0)
}

unsafe extern "C" fn seek_stream(cookie: *mut c_void, to: *mut off_t, from: c_int) -> c_int {
    // SAFETY: libc passes a place that holds an offset.
    let offset = unsafe { *to };
    let file = file_of(cookie);
    let position = seek::seek(file, offset, from, || seek::moved_or_failed(file, offset, from));
    if position < 0 {
        return -1;
    }
    // SAFETY: as above.
    unsafe { *to = position };
    0
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    let file = file_of(cookie);
    follow::close(file, || next!(c"close": fn(c_int) -> c_int, (file), -1))
}

/// fdopen(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(file: c_int, mode: *const c_char) -> *mut FILE {
    if open::shared_memory(file).is_none() {
        return next!(c"fdopen": fn(c_int, *const c_char) -> *mut FILE, (file, mode),
                     std::ptr::null_mut());
    }
    // SAFETY: the mode is a C string by this function's own contract; the functions know the
    // cookie.
    unsafe { fopencookie(file as usize as *mut c_void, mode, FUNCTIONS) }
}
