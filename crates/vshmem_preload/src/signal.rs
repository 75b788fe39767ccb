//! sigaction(2) and its kin: each handler is entered through ours, which notes that it ran.
//!
//! A blocking System V call must end with EINTR when a handler runs, at whatever instruction of
//! ours that happens (see `vshmem_mem::signal_handled`).

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, c_void, sighandler_t, siginfo_t};

use crate::books;
use crate::next::next;

/// Signals there are (_NSIG).
const SIGNALS: usize = 65;

/// The program's handlers.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Whether SA_SIGINFO was asked for.
static DETAILED: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

unsafe extern "C" fn enter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    vshmem_mem::signal_handled();
    if let Some(session) = crate::process::joined() {
        crate::errno::untouched(|| session.member().interrupt());
    }
    let Some(handler) = HANDLERS.get(signal as usize) else { return };
    let address = handler.load(Ordering::Acquire);
    if address > 1 {
        // SAFETY: the program has given this address as its handler; one that takes a single
        // argument ignores the others by the C calling convention.
        unsafe {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(address);
            let paused = books::pause();
            handler(signal, info, context);
            books::resume(&paused);
        }
    }
}

fn ours() -> usize {
    enter as unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize
}

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
    let index = signal as usize;
    let call = |action: *const libc::sigaction, before: *mut libc::sigaction| {
        next!(c"sigaction": fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
              (signal, action, before), -1)
    };
    let (Some(handler), Some(detailed)) = (HANDLERS.get(index), DETAILED.get(index)) else {
        return call(action, before);
    };
    let (old_handler, old_detailed) =
        (handler.load(Ordering::Acquire), detailed.load(Ordering::Acquire));
    // SAFETY: a non-null action is a valid one by contract.
    let wanted = unsafe { action.as_ref() }.copied();
    let result = match wanted {
        Some(mut replaced)
            if ![libc::SIG_DFL, libc::SIG_IGN].contains(&replaced.sa_sigaction)
                && replaced.sa_sigaction != ours() =>
        {
            let asked = (replaced.sa_flags & libc::SA_SIGINFO) as usize;
            // The handler first: the signal may come the moment that the action is set.
            handler.store(replaced.sa_sigaction, Ordering::Release);
            detailed.store(asked, Ordering::Release);
            replaced.sa_sigaction = ours();
            replaced.sa_flags |= libc::SA_SIGINFO;
            let result = call(&raw const replaced, before);
            if result != 0 {
                handler.store(old_handler, Ordering::Release);
                detailed.store(old_detailed, Ordering::Release);
            }
            result
        }
        _ => call(action, before),
    };
    if result == 0 {
        // SAFETY: a non-null pointer is valid by contract, and was just filled in.
        if let Some(before) = unsafe { before.as_mut() }
            && before.sa_sigaction == ours()
        {
            before.sa_sigaction = old_handler;
            if old_detailed == 0 {
                before.sa_flags &= !libc::SA_SIGINFO;
            }
        }
    }
    result
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
