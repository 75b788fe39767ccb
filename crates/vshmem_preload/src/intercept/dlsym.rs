//! dlsym(3) and dlvsym(3): a program that looks for a call in the C library's own handle, as
//! bindings of interpreters do, would find the kernel's. It finds ours.
//!
//! What counts is what libc has found: a function of libc, librt or libpthread, by whatever handle
//! it was found, that this library stands before. RTLD_NEXT and RTLD_DEFAULT find it by
//! themselves, and go by the place that libc's function returns to: they are jumped to.

use std::arch::naked_asm;
use std::ffi::CStr;

use libc::{c_char, c_int, c_void};

use vshmem_process::symbols::{self, Behind};

static DLSYM: Behind = Behind::new(c"dlsym");
static DLVSYM: Behind = Behind::new(c"dlvsym");

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

extern "C" fn next_dlsym() -> *const c_void {
    let next = DLSYM.address();
    if next.is_null() { nothing as *const c_void } else { next }
}

extern "C" fn next_dlvsym() -> *const c_void {
    let next = DLVSYM.address();
    if next.is_null() { nothing as *const c_void } else { next }
}

/// Where there is none to call.
extern "C" fn nothing() -> *mut c_void {
    std::ptr::null_mut()
}

/// What `found`, which libc has found by that name, is to be for a program.
///
/// # Safety
/// `name` is a C string.
unsafe fn ours(name: *const c_char, found: *mut c_void) -> *mut c_void {
    // SAFETY: by this function's contract; libc has read it.
    let own = symbols::own(unsafe { CStr::from_ptr(name) });
    if own.is_null() || !is_of_c_library(found) { found } else { own }
}

fn is_of_c_library(function: *const c_void) -> bool {
    // SAFETY: all-zero bytes are a valid Dl_info, which the call fills in.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let known: c_int = libc::dladdr(function, &raw mut info);
        if known == 0 || info.dli_fname.is_null() {
            return false;
        }
        CStr::from_ptr(info.dli_fname).to_bytes()
    };
    let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    [b"libc.so.6".as_slice(), b"librt.so.1", b"libpthread.so.0"].contains(&file)
}

/// dlsym with a handle of dlopen's.
unsafe extern "C" fn dlsym_in(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: libc's functions of these names have this signature, and `nothing` takes no argument.
    // The arguments are our caller's.
    unsafe {
        let next: Dlsym = std::mem::transmute(next_dlsym());
        let found = next(handle, name);
        if found.is_null() { found } else { ours(name, found) }
    }
}

/// dlvsym with a handle of dlopen's. A function of an older version than programs are linked with
/// today, which may take other arguments, stays libc's.
unsafe extern "C" fn dlvsym_in(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe {
        let next: Dlvsym = std::mem::transmute(next_dlvsym());
        let newest: Dlsym = std::mem::transmute(next_dlsym());
        let found = next(handle, name, version);
        let is_old = !found.is_null() && newest(handle, name) != found;
        if found.is_null() || is_old { found } else { ours(name, found) }
    }
}

/// The instructions of both: to `$here` with a handle of dlopen's, and with RTLD_NEXT (-1) or
/// RTLD_DEFAULT (0) on to what `$next` finds, with our caller's arguments and return address.
#[cfg(target_arch = "x86_64")]
macro_rules! here_or_next {
    ($here:path, $next:path) => {
        naked_asm!(
            "endbr64",
            "lea rax, [rdi + 1]",
            "cmp rax, 1",
            "ja {here}",
            "push rdi",
            "push rsi",
            "push rdx", // aligns the stack as well
            "call {next}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            here = sym $here,
            next = sym $next,
        )
    };
}

/// The same.
#[cfg(target_arch = "aarch64")]
macro_rules! here_or_next {
    ($here:path, $next:path) => {
        naked_asm!(
            "hint #34", // bti c
            "add x9, x0, #1",
            "cmp x9, #1",
            "b.ls 2f",
            "b {here}",
            "2:",
            "stp x29, x30, [sp, #-48]!",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "bl {next}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldr x2, [sp, #32]",
            "ldp x29, x30, [sp], #48",
            "br x16",
            here = sym $here,
            next = sym $next,
        )
    };
}

/// dlsym(3).
///
/// # Safety
/// As libc's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    here_or_next!(dlsym_in, next_dlsym)
}

/// dlvsym(3).
///
/// # Safety
/// As libc's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    here_or_next!(dlvsym_in, next_dlvsym)
}
