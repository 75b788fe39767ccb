//! Fork: a child that goes on as a client of its own, with what its parent has attached, at the
//! same addresses.

use std::ffi::c_int;
use std::sync::TryLockError;

use vshmem_ipc::{ChildSlot, Client, Errno, Process};
use vshmem_session::{Session, domain_of_child, this_process};

use crate::answer;
use crate::handle::{OpenPool, open_pools};
use crate::pool::{Pool, session_of, share};

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_fork_prepare(
    pool: *const Pool,
    child: *mut *mut ChildSlot,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        if !session.link().capabilities().children_inherit {
            return Err(Errno::NOTSUP);
        }
        let kept = session.client().reserve_child()?;
        // SAFETY: the caller passes a place for the handle.
        unsafe { child.write(Box::into_raw(Box::new(kept))) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_fork_parent(
    pool: *const Pool,
    child: *mut ChildSlot,
    pid: c_int,
) -> c_int {
    // SAFETY: the handle was made by vshmem_fork_prepare and ends here.
    let (session, kept) = unsafe { (session_of(pool), *Box::from_raw(child)) };
    answer(session.map(|session| {
        match u32::try_from(pid) {
            Ok(0) => {}
            Ok(pid) => session.client().record_child_pid(kept, pid),
            Err(_) => session.client().cancel_child(kept),
        }
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_fork_child(pool: *const Pool, child: *mut ChildSlot) -> c_int {
    // SAFETY: this process's copy of the handle was made by vshmem_fork_prepare and ends here.
    let (pool, kept) = unsafe { (share(pool), *Box::from_raw(child)) };
    answer(pool.and_then(|pool| {
        if pool.mark.is_of_this_process() {
            return Err(Errno::INVAL);
        }
        // Another thread of the parent held the lock at the fork: the list may be half changed.
        if matches!(pool.held.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Errno::DEADLK);
        }
        become_client(pool.session.as_ref().ok_or(Errno::BADF)?, kept)?;
        pool.mark.claim();
        // The list is empty in a child.
        let weak: OpenPool = std::sync::Arc::<Pool>::downgrade(&pool);
        open_pools()?.push(weak);
        Ok(0)
    }))
}

/// Takes the client slot that the parent has reserved.
fn become_client(session: &Session, kept: ChildSlot) -> Result<(), Errno> {
    vshmem_mem::begin_child();
    let renounced = |client: &Client| {
        client.renounce();
        Errno::NOSYS
    };
    let elsewhere = domain_of_child().map_err(|_| renounced(session.client()))?;
    // As `Session::join_beside`: a client beside the one that this process may be already.
    let process = Process { start: 0, ..this_process() };
    let joined = session.client().become_child(Some(kept), process, elsewhere.as_ref());
    joined.map_err(|_| Errno::NOSPC)?;
    session.link().register_process();
    Ok(())
}
