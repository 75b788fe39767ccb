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
use vshmem_session::{Session, this_process};

use crate::next::{next, system_call};
use crate::{advice, attached, books, errno, fixed, parked, process};

thread_local! {
    /// What this thread has kept for the child of the fork that is under way.
    static KEPT: Cell<Option<ChildSlot>> = const { Cell::new(None) };
    /// How often attaches had changed when it was.
    static KEPT_AT: Cell<u64> = const { Cell::new(0) };
    /// The slot was kept by `fork` below; the handlers need not.
    static PREPARED: Cell<bool> = const { Cell::new(false) };
    /// This thread keeps the others from the address books.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// A page that reads 1 here and 0 in a child that nobody has prepared.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static HANDLERS: AtomicBool = AtomicBool::new(false);

/// Has forks come by here. At load: what registers last is called first before a fork, and the books
/// must not be held while a handler of the program waits for one of its threads.
pub fn register() {
    if !HANDLERS.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

/// Sets up the mark. Once, at set-up.
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
    books::begin_child();
    errno::untouched(|| become_client(session, None))?;
    begin_child(|_| {});
    count_attaches(session);
    Ok(session)
}

/// Counts what is attached here for this process.
fn count_attaches(session: &Session) {
    attached::each(|piece| {
        let _ = session.member().attach_again(piece.id);
    });
}

fn become_client(session: &Session, kept: Option<ChildSlot>) -> Result<(), Errno> {
    if !session.link().is_inherited() {
        fixed::map_again(session)?;
    }
    vshmem_mem::begin_child();
    let joined = session.member().become_child(kept, this_process());
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
    session.link().register_process();
    joined.map_err(|_| Errno::NOSPC)
}

/// Keeps a slot for a child.
fn keep() -> Result<(), Errno> {
    let Some(session) = process::joined() else { return Ok(()) };
    if is_unknown_child() {
        adopt_unknown_child(session)?;
    }
    KEPT_AT.set(books::changes());
    let kept = session.member().reserve_child()?;
    KEPT.set(Some(kept));
    Ok(())
}

/// Gives up what was kept.
fn give_up_kept() {
    if let (Some(session), Some(kept)) = (process::joined(), KEPT.take()) {
        session.member().cancel_child(kept);
    }
}

/// From here to the end of the fork nobody attaches, detaches or changes pieces: the child is to have in
/// its books, and counted, just what it has in its addresses.
extern "C" fn before() {
    let Some(session) = process::inherited() else { return };
    errno::untouched(|| {
        if is_unknown_child() {
            let _ = adopt_unknown_child(session);
        }
        books::hold_for_fork();
        HOLDS.set(true);
        if !PREPARED.get() || KEPT_AT.get() != books::changes() {
            give_up_kept();
            // A fork cannot be refused from here: a child without a slot joins at its first call.
            let _ = keep();
        }
    });
}

extern "C" fn in_parent() {
    if HOLDS.take() {
        errno::untouched(books::release_after_fork);
    }
    if !PREPARED.get() {
        KEPT.set(None);
    }
}

/// Without what a child does not inherit.
fn begin_child(gone: impl FnMut(books::Piece)) {
    advice::begin_child();
    attached::begin_child(gone);
}

extern "C" fn in_child() {
    books::begin_child();
    parked::begin_child();
    if let Some(session) = process::inherited() {
        // A child that cannot join finds out at its first call.
        let kept = KEPT.take();
        let joined = errno::untouched(|| become_client(session, kept));
        if joined.is_ok() && kept.is_none_or(|kept| !session.member().is_in(kept)) {
            // Nothing was counted for it, or it was given back already.
            errno::untouched(|| count_attaches(session));
        }
        if joined.is_ok() || session.link().is_inherited() {
            begin_child(|piece| {
                let _ = session.member().shmdt(piece.id);
            });
        }
    }
    PREPARED.set(false);
    if HOLDS.take() {
        errno::untouched(books::release_after_fork);
    }
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
    with_slot(|| {
        // It runs no handlers.
        before();
        let child = next!(c"_Fork": fn() -> pid_t, (), -1);
        errno::untouched(if child == 0 { child_of_bare_fork } else { parent_of_bare_fork });
        child
    })
}

fn child_of_bare_fork() {
    process::begin();
    in_child();
}

fn parent_of_bare_fork() {
    in_parent();
}
