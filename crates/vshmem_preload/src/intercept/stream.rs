//! Streams of objects: fopen(3) of a path and fdopen(3) of a descriptor. libc's own streams call the
//! kernel inside libc, where the file behind the descriptor is empty. So such a stream has the
//! library's calls behind it.

use std::os::raw::c_void;

use libc::{FILE, c_char, c_int, off_t, size_t, ssize_t};

use vshmem_process::errno;
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
    close(file_of(cookie))
}

/// A stream of libc's for a file of the kernel's, or -1, in place of one that it has opened, or of
/// none.
pub fn of_file(file: c_int, mode: *const c_char, before: *mut FILE) -> *mut FILE {
    if !before.is_null() {
        // SAFETY: the stream was just opened, and no other code knows it.
        errno::untouched(|| unsafe { libc::fclose(before) });
    }
    if file < 0 {
        return std::ptr::null_mut();
    }
    next!(c"fdopen": fn(c_int, *const c_char) -> *mut FILE, (file, mode), std::ptr::null_mut())
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
    of_descriptor(file, mode)
}

/// A stream of a descriptor that is an object's; a descriptor that no stream can be made of
/// is the caller's. The mode was read before.
fn of_descriptor(file: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the mode is a C string; the functions know the cookie.
    let stream = unsafe { fopencookie(file as usize as *mut c_void, mode, FUNCTIONS) };
    if !stream.is_null() {
        // SAFETY: libc has just made it.
        unsafe { tell_descriptor(stream, file) };
    }
    stream
}

/// Where glibc's `struct _IO_FILE` has its descriptor (<bits/types/struct_FILE.h>): behind flags
/// and thirteen pointers. fopencookie(3) puts -2 there, by which fileno(3) knows that there is
/// none; nothing else looks at it, of a stream with functions of its own.
const DESCRIPTOR: usize = 14 * size_of::<*const ()>();
const NONE: c_int = -2;

/// Has fileno(3) tell the descriptor.
///
/// # Safety
/// fopencookie(3) has made the stream.
unsafe fn tell_descriptor(stream: *mut FILE, file: c_int) {
    // SAFETY: a `FILE` of glibc's is longer, and the word is aligned.
    unsafe {
        let place = stream.cast::<u8>().add(DESCRIPTOR).cast::<c_int>();
        if place.read() == NONE {
            place.write(file);
        }
    }
}

/// fopen(3) of what was opened: a descriptor, or -1.
pub fn of_object(file: c_int, mode: *const c_char) -> *mut FILE {
    if file < 0 {
        return std::ptr::null_mut();
    }
    let stream = of_descriptor(file, mode);
    if stream.is_null() {
        errno::untouched(|| close(file));
    }
    stream
}

/// Closes a descriptor that no other code knows.
pub fn close(file: c_int) -> c_int {
    follow::close(file, || next!(c"close": fn(c_int) -> c_int, (file), -1))
}
