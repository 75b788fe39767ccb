//! Seeing to it that this domain has an agent.
//!
//! The agent notices deaths. `vshmem run` starts it; a process that finds none starts one. It must
//! never be a child that the program could wait for: it is forked by raw system calls, twice, with
//! no exit signal, so that neither fork handlers nor SIGCHLD nor wait() of the program see it.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_session::Session;

use crate::next::system_call;
use crate::{cancel, errno, process};

/// The command that starts an agent, if `VSHMEM_COMMAND` tells how. Made before it is needed: a
/// program may clear its environment, and a sleeper must not use the heap.
static COMMAND: OnceLock<[CString; 4]> = OnceLock::new();

/// Starts an agent if there is none, and has this process's sleepers look again now and then.
pub fn watch(session: &Session) {
    if let Some(words) = command(session) {
        COMMAND.get_or_init(|| words);
        session.member().keep_vigil(vigil);
        ensure(session);
    }
}

fn command(session: &Session) -> Option<[CString; 4]> {
    let command = std::env::var("VSHMEM_COMMAND").ok()?;
    let place = session.link().place().to_str()?;
    let word = |text: &str| CString::new(text).ok();
    Some([word(&command)?, word("agent")?, word("--pool")?, word(place)?])
}

/// Sees to it that there is an agent, if that was not done within this second.
pub fn glance() {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let now = vshmem_mem::seconds_now();
    if LAST.load(Ordering::Relaxed) != now && LAST.swap(now, Ordering::Relaxed) != now {
        vigil();
    }
}

fn vigil() {
    if let Some(session) = process::joined() {
        errno::untouched(|| cancel::uncancelled(|| ensure(session)));
    }
}

/// Starts an agent if there is none. One that runs already makes it end at once.
pub fn ensure(session: &Session) {
    let Some(words) = COMMAND.get() else { return };
    if !session.member().must_start_agent(vshmem_link::process_exists).unwrap_or(false) {
        return;
    }
    let null = std::ptr::null();
    let argv = [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), words[3].as_ptr(), null];
    // Nothing of the program's environment: no LD_PRELOAD in the agent.
    let envp: [*const libc::c_char; 1] = [null];
    // SAFETY: raw fork without shared memory; the children call nothing but system calls on
    // prepared memory before exec or exit.
    unsafe {
        // Not even the address of a symbol is looked up in the children.
        system_call(libc::SYS_getpid, []);
        let child = system_call(libc::SYS_clone, []);
        if child == 0 {
            system_call(libc::SYS_setsid, []);
            if system_call(libc::SYS_clone, []) == 0 {
                system_call(libc::SYS_close_range, [0, u32::MAX as usize, 0]);
                let null = c"/dev/null".as_ptr().addr();
                for _ in 0..3 {
                    let here = libc::AT_FDCWD as usize;
                    system_call(libc::SYS_openat, [here, null, libc::O_RDWR as usize]);
                }
                let words = [argv[0].addr(), argv.as_ptr().addr(), envp.as_ptr().addr()];
                system_call(libc::SYS_execve, words);
            }
            system_call(libc::SYS_exit_group, [0]);
        }
        if child > 0 {
            // __WCLONE: children without an exit signal, which the program's wait() never sees.
            system_call(libc::SYS_wait4, [child as usize, 0, libc::__WCLONE as usize, 0]);
        }
    }
}
