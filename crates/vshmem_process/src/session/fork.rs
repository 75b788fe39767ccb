//! fork(2) and what else makes a child: the slot that is kept for it, and the handlers around it.
//!
//! The parent keeps a client slot with all its attaches for the child before it forks, so that no
//! segment can vanish under the child. libc's own forks (daemon, forkpty) go through the atfork
//! handlers; `fork` itself is defined here so that a full pool can be EAGAIN. A child made by a
//! raw clone knows itself by a page that the kernel wipes on fork.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use libc::pid_t;
use vshmem_ipc::{ChildSlot, Errno};
use vshmem_mem::unless_confined;

use crate::attached::{attach_table, future_locks, mapping_cache};
use crate::object_descriptors::open;
use crate::session::{child, join};
use crate::{errno, process};

/// Forks of a thread inside each other at most: `fork` in a signal handler that has interrupted
/// `fork`, and so on.
const LEVELS: usize = 4;

/// What is kept for the child of one fork.
#[derive(Debug)]
struct Kept {
    slot: Cell<Option<ChildSlot>>,
    /// How often attaches had changed when it was.
    at: Cell<u64>,
}

impl Kept {
    const fn nothing() -> Self {
        Self { slot: Cell::new(None), at: Cell::new(0) }
    }
}

/// What a thread has kept for the children of forks that are under way.
#[derive(Debug)]
struct UnderWay {
    /// Calls of `fork` below that have not returned. Raised before a level is used: a handler that
    /// comes in between has the next.
    depth: AtomicUsize,
    /// For the child of each.
    kept: [Kept; LEVELS],
    /// For the child of a fork inside libc.
    inside: Kept,
    /// This thread keeps the others from the attach table. No handler runs meanwhile.
    holds_table: Cell<bool>,
}

impl UnderWay {
    fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    fn set_depth(&self, depth: usize) {
        self.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// What is kept for the child of the innermost fork.
    fn innermost(&self) -> &Kept {
        match self.depth().checked_sub(1) {
            Some(level) => &self.kept[level.min(LEVELS - 1)],
            None => &self.inside,
        }
    }

    /// In a child: what is kept for others is its parent's.
    fn begin_child(&self) {
        for kept in self.kept.iter().chain([&self.inside]) {
            kept.slot.set(None);
        }
    }
}

thread_local! {
    static UNDER_WAY: UnderWay = const {
        UnderWay {
            depth: AtomicUsize::new(0),
            kept: [const { Kept::nothing() }; LEVELS],
            inside: Kept::nothing(),
            holds_table: Cell::new(false),
        }
    };
}

static HANDLERS: AtomicBool = AtomicBool::new(false);

/// Has forks come by here. Before any other library registers handlers: what registers last is
/// called first before a fork, and the attach table must not be held while a handler of another
/// else's waits for one of the program's threads.
pub fn register() {
    if !HANDLERS.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

/// At load: when the libraries that the program needs have registered theirs.
pub fn register_late() {
    // SAFETY: as in `register`.
    unsafe { libc::pthread_atfork(None, None, Some(late_in_child)) };
}

/// Keeps a slot for a child.
fn keep() -> Result<(), Errno> {
    let Some(session) = process::joined() else { return Ok(()) };
    if process::is_unknown_child() {
        child::adopt(session).map_err(|_| Errno::AGAIN)?;
    }
    let this_client = session.client();
    // Its memory is this process's own by now: there is nothing to count for a child.
    if this_client.has_left() {
        return Ok(());
    }
    let at = attach_table::changes();
    let slot = this_client.reserve_child()?;
    UNDER_WAY.with(|forks| {
        forks.innermost().at.set(at);
        forks.innermost().slot.set(Some(slot));
    });
    Ok(())
}

/// Takes what is kept for the child of the innermost fork.
fn take_kept() -> Option<ChildSlot> {
    UNDER_WAY.with(|forks| forks.innermost().slot.take())
}

/// Whether a slot is kept for the child, with the attaches that there are now.
fn is_kept() -> bool {
    UNDER_WAY.with(|forks| {
        let kept = forks.innermost();
        kept.slot.get().is_some() && kept.at.get() == attach_table::changes()
    })
}

/// From here to the end of the fork no thread attaches, detaches or changes pieces: the child is to
/// have in its attach table, and counted, just what it has in its addresses.
extern "C" fn before() {
    let Some(session) = process::inherited() else { return };
    errno::untouched(|| {
        if process::is_unknown_child() {
            let _ = child::adopt(session);
        }
        attach_table::hold_for_fork();
        UNDER_WAY.with(|forks| forks.holds_table.set(true));
        if is_kept() {
            return;
        }
        if let (Some(session), Some(kept)) = (process::joined(), take_kept()) {
            session.client().cancel_child(kept);
        }
        // A fork cannot be refused from here: a child without a slot joins at its first call.
        let _ = keep();
    });
}

/// Unlocks the attach table.
fn release_table() {
    if UNDER_WAY.with(|forks| forks.holds_table.take()) {
        errno::untouched(attach_table::release_after_fork);
    }
}

extern "C" fn in_parent() {
    release_table();
    UNDER_WAY.with(|forks| forks.inside.slot.set(None));
}

extern "C" fn in_child() {
    future_locks::begin_child();
    // A process that has not joined has nothing in them: each word that is stored here would be a
    // page that the kernel copies.
    if process::inherited().is_some() {
        attach_table::begin_child();
        open::begin_child();
        mapping_cache::begin_child();
        if !is_first_of_namespace() {
            take_place();
        }
    }
    release_table();
}

/// To be called when the handlers of others have been: to find out its domain takes a child the
/// heap, which may be one of theirs.
extern "C" fn late_in_child() {
    // Not when a handler has been at a call meanwhile.
    let is_new = !process::is_known();
    if is_new && is_first_of_namespace() {
        take_place();
    }
}

/// Whether this is the first process of a PID namespace, or its parent is outside.
fn is_first_of_namespace() -> bool {
    unless_confined(|| rustix::process::getppid().is_none()).unwrap_or(false)
}

/// Makes a new child a client of its own.
fn take_place() {
    if let Some(session) = process::inherited() {
        // A child that cannot join finds out at its first call, which tries again.
        let kept = take_kept();
        UNDER_WAY.with(UnderWay::begin_child);
        let joined = errno::untouched(|| child::become_client(session, kept));
        if joined.is_ok() && kept.is_none_or(|kept| !session.client().is_in(kept)) {
            // Nothing was counted for it, or it was given back already.
            errno::untouched(|| child::count_attaches(session));
        }
        if joined.is_ok() || session.link().capabilities().children_inherit {
            child::begin_child(|piece| {
                let _ = session.client().shmdt(piece.id);
            });
            child::mark_as_begun();
        }
    }
}

/// Runs a fork of libc's with a slot kept for the child.
pub fn with_slot(fork: impl FnOnce() -> pid_t) -> pid_t {
    let level = UNDER_WAY.with(|forks| {
        let level = forks.depth();
        forks.set_depth(level + 1);
        level
    });
    let child = match errno::untouched(keep) {
        Ok(()) => fork_prepared(fork),
        Err(error) => {
            errno::set(error);
            -1
        }
    };
    UNDER_WAY.with(|forks| {
        forks.innermost().slot.set(None);
        forks.set_depth(level);
    });
    child
}

fn fork_prepared(fork: impl FnOnce() -> pid_t) -> pid_t {
    let child = fork();
    if child == 0 {
        join::begin();
    }
    if child != 0
        && let (Some(session), Some(kept)) = (process::joined(), take_kept())
    {
        errno::untouched(|| match u32::try_from(child) {
            Ok(pid) => session.client().record_child_pid(kept, pid),
            Err(_) => session.client().cancel_child(kept),
        });
    }
    child
}

/// A fork that runs no handlers, and so has them run from here.
pub fn without_handlers(fork: impl FnOnce() -> pid_t) -> pid_t {
    with_slot(|| {
        before();
        let child = fork();
        errno::untouched(if child == 0 { child_of_bare_fork } else { parent_of_bare_fork });
        child
    })
}

fn child_of_bare_fork() {
    join::begin();
    in_child();
    late_in_child();
}

fn parent_of_bare_fork() {
    in_parent();
}
