//! fork(2) and what else makes a child.
//!
//! The parent keeps a client slot with all its attaches for the child before it forks, so that no
//! segment can vanish under the child. libc's own forks (daemon, forkpty) go through the atfork
//! handlers; `fork` itself is defined here so that a full pool can be EAGAIN. A child made by a
//! raw clone knows itself by a page that the kernel wipes on fork.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use libc::pid_t;
use vshmem_ipc::{ChildSlot, Errno};
use vshmem_session::{Session, domain_of_child, this_process};

use crate::next::{next, system_call};
use crate::{agent, attached, errno, fixed, parked, process};

thread_local! {
    /// What this thread has kept for the child of the fork that is under way.
    static KEPT: Cell<Option<ChildSlot>> = const { Cell::new(None) };
    /// The slot was kept by `fork` below; the handlers need not.
    static PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// A page that reads 1 here and 0 in a child that nobody has prepared.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static HANDLERS: AtomicBool = AtomicBool::new(false);

/// Sets up the mark and the handlers. Once, at set-up.
pub fn prepare_marks() {
    if let Ok(page) = vshmem_mem::Mapping::anonymous(4096) {
        let start = page.leak().as_ptr();
        // SAFETY: the page is ours and stays mapped.
        unsafe {
            if system_call(libc::SYS_madvise, [start.addr(), 4096, libc::MADV_WIPEONFORK as usize])
                == 0
            {
                let mark = start.cast::<AtomicU32>();
                (*mark).store(1, Ordering::Relaxed);
                MARK.store(mark, Ordering::Release);
            }
        }
    }
    if !HANDLERS.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: the page is never unmapped once published.
    unsafe { MARK.load(Ordering::Relaxed).as_ref() }
}

/// Whether this is a child that has come about behind our back.
#[inline]
pub fn is_unknown_child() -> bool {
    mark().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// Makes such a child a client of its own. A vfork child shares its parent's memory and so never
/// gets here.
#[cold]
pub fn adopt_unknown_child(session: &'static Session) -> Result<&'static Session, Errno> {
    errno::untouched(|| become_client(session, None))?;
    while attached::take(|piece| !piece.rights.inherited).is_some() {}
    attached::each(|piece| {
        let _ = session.member().attach_again(piece.id);
    });
    Ok(session)
}

fn become_client(session: &Session, kept: Option<ChildSlot>) -> Result<(), Errno> {
    if !session.link().is_inherited() {
        fixed::map_again(session)?;
    }
    let elsewhere = domain_of_child();
    let joined = match &elsewhere {
        Ok(home) => session
            .member()
            .become_child(kept, this_process(), home.as_ref())
            .map_err(|_| Errno::NOSPC),
        Err(_) => {
            session.member().renounce();
            Err(Errno::NOSYS)
        }
    };
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
    session.link().register_process();
    if joined.is_ok() && matches!(elsewhere, Ok(Some(_))) {
        agent::ensure(session);
    }
    joined
}

/// Keeps a slot for a child.
fn keep() -> Result<(), Errno> {
    let Some(session) = process::joined() else { return Ok(()) };
    if is_unknown_child() {
        adopt_unknown_child(session)?;
    }
    let kept = session.member().reserve_child()?;
    KEPT.set(Some(kept));
    Ok(())
}

extern "C" fn before() {
    if !PREPARED.get() {
        // A fork inside libc cannot be refused by a handler: a child without a slot joins at its
        // first call.
        let _ = errno::untouched(keep);
    }
}

extern "C" fn in_parent() {
    if !PREPARED.get() {
        KEPT.set(None);
    }
}

extern "C" fn in_child() {
    parked::begin_child();
    if let Some(session) = process::inherited() {
        // A child that cannot join finds out at its first call.
        let joined = errno::untouched(|| become_client(session, KEPT.take()));
        if joined.is_err() && !session.link().is_inherited() {
            PREPARED.set(false);
            return;
        }
        while let Some(piece) = attached::take(|piece| !piece.rights.inherited) {
            let _ = session.member().shmdt(piece.id);
        }
    }
    PREPARED.set(false);
}

/// Runs a fork of libc's with a slot kept for the child.
fn with_slot(fork: impl FnOnce() -> pid_t) -> pid_t {
    if let Err(error) = errno::untouched(keep) {
        errno::set(error);
        return -1;
    }
    PREPARED.set(true);
    let child = fork();
    if child == 0 {
        process::begin();
    }
    if child == 0 && is_unknown_child() {
        // _Fork runs no handlers.
        in_child();
    }
    if child != 0
        && let (Some(session), Some(kept)) = (process::joined(), KEPT.get())
    {
        errno::untouched(|| match u32::try_from(child) {
            Ok(pid) => session.member().name_child(kept, pid),
            Err(_) => session.member().cancel_child(kept),
        });
    }
    PREPARED.set(false);
    KEPT.set(None);
    child
}

/// fork(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    with_slot(|| next!(c"fork": fn() -> pid_t, (), -1))
}

/// _Fork(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    with_slot(|| next!(c"_Fork": fn() -> pid_t, (), -1))
}
