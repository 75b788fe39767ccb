//! A child's place in the pool: what it becomes a client with, and what it does not inherit.

use vshmem_ipc::{ChildSlot, Errno, Process};
use vshmem_mem::unless_confined;
use vshmem_session::{Session, domain_of_child, this_process};

use crate::attached::{attach_table, fixed, future_locks, mapping_cache, pieces};
use crate::object_descriptors::open;
use crate::session::{agent, caller, thread_words};
use crate::{errno, process};

/// Makes a child that has come about without our knowledge a client of its own. A vfork child
/// shares its parent's memory and so never gets here.
#[cold]
pub fn adopt(session: &'static Session) -> Result<&'static Session, Errno> {
    attach_table::begin_child();
    open::begin_child();
    mapping_cache::begin_child();
    errno::untouched(|| become_client(session, None))?;
    begin_child(|_| {});
    count_attaches(session);
    Ok(session)
}

/// Counts what is attached and open here for this process.
pub fn count_attaches(session: &Session) {
    open::count_all();
    pieces::each(|piece| {
        let _ = session.client().attach_again(piece.id);
    });
}

/// Makes a child a client, in the slot that was kept for it if there is one.
pub fn become_client(session: &Session, kept: Option<ChildSlot>) -> Result<(), Errno> {
    if !session.link().capabilities().children_inherit {
        fixed::map_again(session)?;
    }
    vshmem_mem::begin_child();
    caller::begin_child();
    thread_words::begin_child();
    let elsewhere = unless_confined(domain_of_child).unwrap_or(Ok(None));
    let joined = match &elsewhere {
        Ok(home) => session
            .client()
            .become_child(kept, own_process(), home.as_ref())
            .map_err(|_| Errno::NOSPC),
        Err(_) => {
            session.client().renounce();
            Err(Errno::NOSYS)
        }
    };
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
