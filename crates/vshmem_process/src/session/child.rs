//! A child's place in the pool: what it becomes a client with, and what it does not inherit.

use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_ipc::{ChildSlot, Errno, JoinError, Process};
use vshmem_mem::unless_confined;
use vshmem_session::{Session, domain_of_child, this_process};

use crate::attached::{attach_table, fixed, future_locks, mapping_cache, pieces};
use crate::object_descriptors::open;
use crate::session::{agent, caller, cancel, thread_words};
use crate::{errno, process};

/// What a child does once, however often it is refused a client slot.
const TABLES_BEGUN: u32 = 1;
const PIECES_BEGUN: u32 = 2;

/// Makes a child that has come about without our knowledge, or has found no client slot before, a
/// client of its own. A vfork child shares its parent's memory and so never gets here.
///
/// # Errors
/// ENOSPC when there is no client slot: the next call tries again. NOSYS in a handler that has
/// interrupted this.
#[cold]
pub fn adopt(session: &'static Session) -> Result<&'static Session, Errno> {
    let Some([adopter, begun]) = process::words_of_child() else { return Ok(session) };
    let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let order = (Ordering::Acquire, Ordering::Relaxed);
    while let Err(other) = adopter.compare_exchange(0, me, order.0, order.1) {
        if other == me {
            return Err(Errno::NOSYS);
        }
        rustix::thread::sched_yield();
    }
    // A thread that ended in between would keep the others waiting.
    let joined = cancel::uncancelled(|| match process::is_unknown_child() {
        true => adopt_alone(session, begun),
        false => Ok(()),
    });
    adopter.store(0, Ordering::Release);
    joined.map(|()| session)
}

fn adopt_alone(session: &'static Session, begun: &AtomicU32) -> Result<(), Errno> {
    if begun.fetch_or(TABLES_BEGUN, Ordering::Relaxed) & TABLES_BEGUN == 0 {
        attach_table::begin_child();
        open::begin_child();
        mapping_cache::begin_child();
    }
    errno::untouched(|| become_client(session, None))?;
    if begun.fetch_or(PIECES_BEGUN, Ordering::Relaxed) & PIECES_BEGUN == 0 {
        begin_child(|_| {});
    }
    count_attaches(session);
    Ok(())
}

/// `fork` has done for this child what [`adopt`] would do once.
pub fn mark_as_begun() {
    if let Some([_, begun]) = process::words_of_child() {
        begun.store(TABLES_BEGUN | PIECES_BEGUN, Ordering::Relaxed);
    }
}

/// Counts what is attached and open here for this process.
pub fn count_attaches(session: &Session) {
    open::count_all();
    pieces::each(|piece| {
        let _ = session.client().attach_again(piece.id);
    });
}

/// Makes a child a client, in the slot that was kept for it if there is one.
///
/// # Errors
/// ENOSPC when the pool has no slot for it: then it is to be tried again. ENOSYS, EIO when it
/// cannot be a client.
pub fn become_client(session: &Session, kept: Option<ChildSlot>) -> Result<(), Errno> {
    if !session.link().capabilities().children_inherit {
        fixed::map_again(session)?;
    }
    vshmem_mem::begin_child();
    caller::begin_child();
    thread_words::begin_child();
    let elsewhere = unless_confined(domain_of_child).unwrap_or(Ok(None));
    let joined = match &elsewhere {
        Ok(home) => {
            session.client().become_child(kept, own_process(), home.as_ref()).map_err(|error| {
                match error {
                    JoinError::Full { .. } => Errno::NOSPC,
                    JoinError::Left => Errno::IDRM,
                    JoinError::Evicted | JoinError::Damaged(_) => Errno::IO,
                }
            })
        }
        Err(_) => {
            session.client().renounce();
            Err(Errno::NOSYS)
        }
    };
    if joined == Err(Errno::NOSPC) {
        return joined;
    }
    process::mark_as_known();
    session.link().register_process();
    if joined.is_ok() && matches!(elsewhere, Ok(Some(_))) {
        agent::ensure(session);
    }
    joined
}

/// This process. A confined one does without its start time.
fn own_process() -> Process {
    unless_confined(this_process).unwrap_or_else(|| Process {
        pid: process::own_pid(),
        start: 0,
        uid: rustix::process::getuid().as_raw(),
    })
}

/// Without what a child does not inherit.
pub fn begin_child(gone: impl FnMut(attach_table::Piece)) {
    future_locks::begin_child();
    pieces::begin_child(gone);
}
