//! sigaction(2) and its kin.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, sighandler_t};

use vshmem_process::next::next;
use vshmem_process::session::handlers;

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

macro_rules! signals {
    ($($name:ident $page:literal $install:ident)*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            $install(signal, handler)
        }
    )*};
}
signals! {
    signal "signal(2), with the BSD meaning that glibc gives it." install_for_good
    bsd_signal "bsd_signal(3)." install_for_good
    ssignal "ssignal(3)." install_for_good
    sysv_signal "sysv_signal(3)." install_once
    __sysv_signal "signal(2) as glibc's header has it for programs that ask for POSIX or C alone." install_once
    sigset "sigset(3)." install_and_let_come
}

/// Signals that siginterrupt(3) has named, a bit each: handlers of signal(2) interrupt calls.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn bit_of(signal: c_int) -> u64 {
    if (1..=64).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

/// Until another is; during it the signal waits.
fn install_for_good(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let interrupts = INTERRUPTING.load(Ordering::Relaxed) & bit_of(signal) != 0;
    let mask = set_of(signal);
    install(signal, handler, if interrupts { 0 } else { libc::SA_RESTART }, mask)
}

/// For one signal, and interrupting.
fn install_once(signal: c_int, handler: sighandler_t) -> sighandler_t {
    install(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, no_signal())
}

/// Interrupting, and the signal is let through from now on; or it is held back.
fn install_and_let_come(signal: c_int, handler: sighandler_t) -> sighandler_t {
    /// Held back, as a handler.
    const SIG_HOLD: sighandler_t = 2;
    let mut before = no_signal();
    let set = set_of(signal);
    let mut mask_by = |how| {
        // SAFETY: both sets are live.
        unsafe { libc::sigprocmask(how, &raw const set, &raw mut before) == 0 }
    };
    let (is_done, handler) = if handler == SIG_HOLD {
        (mask_by(libc::SIG_BLOCK), handler_of(signal))
    } else {
        let former = install(signal, handler, 0, no_signal());
        (former != libc::SIG_ERR && mask_by(libc::SIG_UNBLOCK), former)
    };
    if !is_done {
        return libc::SIG_ERR;
    }
    // SAFETY: the set was just filled in.
    if unsafe { libc::sigismember(&raw const before, signal) } == 1 { SIG_HOLD } else { handler }
}

/// siginterrupt(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let mut action = no_action();
    // SAFETY: the structure is live; so below.
    if unsafe { sigaction(signal, std::ptr::null(), &raw mut action) } != 0 {
        return -1;
    }
    if interrupts == 0 {
        INTERRUPTING.fetch_and(!bit_of(signal), Ordering::Relaxed);
        action.sa_flags |= libc::SA_RESTART;
    } else {
        INTERRUPTING.fetch_or(bit_of(signal), Ordering::Relaxed);
        action.sa_flags &= !libc::SA_RESTART;
    }
    // SAFETY: as above.
    unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) }
}

/// An empty set.
fn no_signal() -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid set, and it is emptied before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        set
    }
}

/// A set with that signal; an empty one and EINVAL if there is none of that number.
fn set_of(signal: c_int) -> libc::sigset_t {
    let mut set = no_signal();
    // SAFETY: a live set.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    set
}

fn no_action() -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid sigaction.
    unsafe { std::mem::zeroed() }
}

fn handler_of(signal: c_int) -> sighandler_t {
    let mut action = no_action();
    // SAFETY: the structure is live.
    let result = unsafe { sigaction(signal, std::ptr::null(), &raw mut action) };
    if result == 0 { action.sa_sigaction } else { libc::SIG_ERR }
}

fn install(
    signal: c_int,
    handler: sighandler_t,
    flags: c_int,
    mask: libc::sigset_t,
) -> sighandler_t {
    let (mut action, mut before) = (no_action(), no_action());
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action.sa_mask = mask;
    // SAFETY: both structures are live.
    let result = unsafe { sigaction(signal, &raw const action, &raw mut before) };
    if result == 0 { before.sa_sigaction } else { libc::SIG_ERR }
}
