//! sigaction(2) and its kin.

use libc::{c_int, sighandler_t};

use crate::next::next;
use crate::session::handlers;

/// sigaction(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: a non-null action is a valid one by contract.
    handlers::install(signal, unsafe { action.as_ref() }, before, |action, before| {
        next!(c"sigaction": fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
              (signal, action, before), -1)
    })
}

/// signal(2), with the BSD meaning that glibc gives it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same contract.
    unsafe { install(signal, handler, libc::SA_RESTART) }
}

/// bsd_signal(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same contract.
    unsafe { install(signal, handler, libc::SA_RESTART) }
}

/// sysv_signal(3): once only, and interrupting.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same contract.
    unsafe { install(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER) }
}

unsafe fn install(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: all-zero bytes are a valid sigaction, and the set is emptied before use.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: both structures are live.
    let result = unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        if flags & libc::SA_RESTART != 0 {
            libc::sigaddset(&raw mut action.sa_mask, signal);
        }
        sigaction(signal, &raw const action, &raw mut before)
    };
    if result == 0 { before.sa_sigaction } else { libc::SIG_ERR }
}
