//! Streams of objects: fopen(3) of a path, fdopen(3) of a descriptor, and the standard ones. libc's
//! own call the kernel inside libc, where the file behind the descriptor is empty. So such a stream
//! has the library's calls behind it.

use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{FILE, c_char, c_int, off_t, size_t, ssize_t};

use vshmem_ipc::Errno;
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
    let file = file_of(cookie);
    // The number may stand for a file of the kernel's by now.
    Transfer { file, way: Way::Read, at: None }.of(
        to,
        bytes,
        || next!(c"read": fn(c_int, *mut u8, size_t) -> ssize_t, (file, to, bytes), -1),
    )
}

unsafe extern "C" fn write_stream(cookie: *mut c_void, from: *const u8, bytes: size_t) -> ssize_t {
    let file = file_of(cookie);
    let done = Transfer { file, way: Way::Write, at: None }.of(
        from.cast_mut(),
        bytes,
        || next!(c"write": fn(c_int, *const u8, size_t) -> ssize_t, (file, from, bytes), -1),
    );
    // 0 is how fopencookie(3) has an error said.
    done.max(0)
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

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// Which of the standard streams have been replaced.
static REPLACED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// The variable that has the standard stream of a descriptor.
fn variable_of(number: c_int) -> Option<*mut *mut FILE> {
    match number {
        0 => Some(&raw mut stdin),
        1 => Some(&raw mut stdout),
        2 => Some(&raw mut stderr),
        _ => None,
    }
}

/// To be called when a number may have come to stand for another file. If that is an object, and
/// the number is one of the first three, its standard stream is from then on one that can read and
/// write objects, and what else the number may stand for later.
#[inline]
pub fn note(number: c_int) -> c_int {
    if (0..3).contains(&number) && open::object_of(number).is_some() {
        errno::untouched(|| replace(number));
    }
    number
}

#[cold]
fn replace(number: c_int) {
    let Some(variable) = variable_of(number) else { return };
    let is_object = open::shared_memory(number).is_some();
    if !is_object || REPLACED[number as usize].swap(true, Ordering::Relaxed) {
        return;
    }
    let mode = if number == 0 { c"r" } else { c"w" };
    let stream = of_descriptor(number, mode.as_ptr());
    if stream.is_null() {
        return;
    }
    // SAFETY: the stream is new; libc's variables may be set (stdin(3)).
    unsafe {
        if number == 2 {
            libc::setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0);
        }
        variable.write(stream);
    }
}

/// Makes a standard stream one of the object that was opened as `file`, which is closed. Any other
/// stream reads its file by itself: ENOTSUP.
pub fn reopen_standard(file: c_int, stream: *mut FILE) -> *mut FILE {
    let is_it = |number: &c_int| {
        // SAFETY: libc's variables are there.
        variable_of(*number).is_some_and(|variable| unsafe { variable.read() } == stream)
    };
    let number = (0..3).find(is_it);
    let done = number.map(|number| {
        // SAFETY: a stream of libc's own.
        unsafe { libc::fflush(stream) };
        let dup2 = || next!(c"dup2": fn(c_int, c_int) -> c_int, (file, number), -1);
        note(follow::duplicate_to(file, number, dup2))
    });
    errno::untouched(|| close(file));
    match number.filter(|_| done != Some(-1)).and_then(variable_of) {
        // SAFETY: as above.
        Some(variable) => unsafe { variable.read() },
        None => {
            if number.is_none() {
                errno::set(Errno::NOTSUP);
            }
            std::ptr::null_mut()
        }
    }
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
