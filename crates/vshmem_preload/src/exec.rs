//! execve(2) and its family: a program that is replaced detaches its segments and keeps its
//! adjustments.
//!
//! The books are changed before the kernel is asked, because nobody is left to change them after;
//! if exec fails, they are put back. A program that plainly cannot be executed is not even tried.

use std::ffi::CStr;

use libc::{c_char, c_int};
use rustix::fs::{Access, AtFlags, CWD};

use crate::next::next;
use crate::{attached, errno, fork, process};

/// Runs an exec with nothing attached.
fn detached(path: Option<*const c_char>, exec: impl FnOnce() -> c_int) -> c_int {
    let Some(session) = process::joined() else { return exec() };
    let member = session.member();
    // A vfork child works in its parent's memory; what it holds is its parent's.
    let mine = !fork::is_unknown_child() && member.is_process(rustix::process::getpid());
    let executable = path.is_none_or(|path| {
        if path.is_null() {
            return false;
        }
        // SAFETY: exec's contract is that the path is a C string.
        let path = unsafe { CStr::from_ptr(path) };
        rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    });
    if !mine || !executable || attached::is_empty() {
        return exec();
    }
    let _ = errno::untouched(|| member.detach_all());
    let result = exec();
    errno::untouched(|| {
        attached::each(|piece| {
            let _ = member.attach_again(piece.id);
        });
    });
    result
}

/// execve(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    detached(Some(path), || {
        next!(c"execve": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
              (path, argv, envp), -1)
    })
}

/// execv(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
    detached(Some(path), || {
        next!(c"execv": fn(*const c_char, *const *const c_char) -> c_int, (path, argv), -1)
    })
}

/// execvp(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
    detached(None, || {
        next!(c"execvp": fn(*const c_char, *const *const c_char) -> c_int, (file, argv), -1)
    })
}

/// execvpe(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    detached(None, || {
        next!(c"execvpe": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
              (file, argv, envp), -1)
    })
}

/// fexecve(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(
    file: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    detached(None, || {
        next!(c"fexecve": fn(c_int, *const *const c_char, *const *const c_char) -> c_int,
              (file, argv, envp), -1)
    })
}

/// execveat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    flags: c_int,
) -> c_int {
    detached(None, || {
        next!(c"execveat":
            fn(c_int, *const c_char, *const *const c_char, *const *const c_char, c_int) -> c_int,
            (directory, path, argv, envp, flags), -1)
    })
}
