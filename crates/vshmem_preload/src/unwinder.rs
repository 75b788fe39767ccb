//! The unwinder's functions, looked up when something unwinds.
//!
//! Code of the standard library refers to them, so that libgcc_s would be loaded into each program
//! under this library: a tenth of what a small program takes to start. Nothing here unwinds by
//! itself (a panic ends the process). What passes through is a cancellation or an exception of the
//! program's, whose unwinder is loaded by then, and asks these frames by these names.

use std::ffi::{CStr, c_char, c_int, c_void};

use vshmem_process::next::next;

/// The C library loads it for a cancellation, and C++ for an exception.
const LIBRARY: &CStr = c"libgcc_s.so.1";

/// In place of those that are not there: an empty backtrace, and a frame that has nothing to do
/// when it is unwound. A program with an unwinder of its own comes here (-static-libgcc).
extern "C" fn nothing() -> usize {
    0
}

/// The unwinder's function of that name.
///
/// # Safety
/// `name` is a C string.
unsafe extern "C" fn look_up(name: *const c_char) -> *const c_void {
    // Asked by who has loaded it, or else it is none.
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    let library = next!(c"dlopen": fn(*const c_char, c_int) -> *mut c_void,
                        (LIBRARY.as_ptr(), flags), std::ptr::null_mut());
    let found = if library.is_null() {
        std::ptr::null_mut()
    } else {
        // SAFETY: a handle that dlopen has given, and by contract.
        unsafe { libc::dlsym(library, name) }
    };
    if found.is_null() { nothing as *const c_void } else { found.cast_const() }
}

/// Defines them, hidden: other libraries keep their own. Each jumps to what it has looked up, with
/// the arguments that it was given, at most three.
macro_rules! unwinders {
    ($($name:literal)*) => {
        std::arch::global_asm!(
            $(
                concat!(".globl ", $name), concat!(".hidden ", $name),
                concat!(".type ", $name, ",@function"), ".p2align 4",
                concat!($name, ":"),
                ".cfi_startproc",
                "push rdi", ".cfi_adjust_cfa_offset 8",
                "push rsi", ".cfi_adjust_cfa_offset 8",
                "push rdx", ".cfi_adjust_cfa_offset 8",
                "lea rdi, [rip + 2f]",
                "call {look_up}",
                "pop rdx", ".cfi_adjust_cfa_offset -8",
                "pop rsi", ".cfi_adjust_cfa_offset -8",
                "pop rdi", ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                "2:", concat!(".asciz \"", $name, "\""),
                concat!(".size ", $name, ", . - ", $name),
            )*
            look_up = sym look_up,
        );
    };
}

unwinders! {
    "_Unwind_Backtrace" "_Unwind_FindEnclosingFunction" "_Unwind_GetCFA" "_Unwind_GetDataRelBase"
    "_Unwind_GetIP" "_Unwind_GetIPInfo" "_Unwind_GetLanguageSpecificData" "_Unwind_GetRegionStart"
    "_Unwind_GetTextRelBase" "_Unwind_Resume" "_Unwind_SetGR" "_Unwind_SetIP"
}
