//! dlopen(3): a library opened with RTLD_DEEPBIND would find libc's calls before ours, and silently
//! use the kernel's IPC. It is opened without that flag.

use std::arch::naked_asm;

use libc::{c_char, c_int, c_void};

use vshmem_process::next::{Next, Symbol};

/// `mode` of dlopen without RTLD_DEEPBIND.
const KEPT: c_int = !libc::RTLD_DEEPBIND;

extern "C" fn next_dlopen() -> *const c_void {
    static NEXT: Next = Next::unknown();
    let next = NEXT.address(const { Symbol::new(c"dlopen") });
    if next.is_null() { no_dlopen as *const c_void } else { next }
}

/// For a program that has no dlopen to call: its libc came without.
extern "C" fn no_dlopen(_file: *const c_char, _mode: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

/// dlopen(3), without RTLD_DEEPBIND.
///
/// It jumps to the next dlopen and does not call it: that one takes the object that it will return
/// to for its caller, and searches by the RUNPATH of that.
///
/// # Safety
/// As libc's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    naked_asm!(
        "endbr64",
        "and esi, {kept}",
        "push rdi",
        "push rsi",
        "sub rsp, 8", // aligns the stack
        "call {next}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        kept = const KEPT,
        next = sym next_dlopen,
    )
}

/// dlopen(3), without RTLD_DEEPBIND.
///
/// It jumps to the next dlopen and does not call it: that one takes the object that it will return
/// to for its caller, and searches by the RUNPATH of that.
///
/// # Safety
/// As libc's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    naked_asm!(
        "hint #34", // bti c
        "and w1, w1, #{kept}",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {next}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        kept = const KEPT as u32,
        next = sym next_dlopen,
    )
}
