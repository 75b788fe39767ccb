//! The calling thread as the owner of a lock.

use std::sync::atomic::Ordering;

use vshmem_ipc::{Errno, LockOwner};
use vshmem_mem::Deadline;

use crate::process;
use crate::process_shared::sleeper;
use crate::session::{current, thread_words};

/// The calling thread, as soon as the pool has a client slot for its process: no standard knows an
/// error for that.
///
/// # Errors
/// ETIMEDOUT when it has none until the deadline; EIO when the process cannot be a client.
#[inline(always)]
pub fn me_until(deadline: Option<Deadline>) -> Result<LockOwner, Errno> {
    match me() {
        Err(Errno::NOSPC) => await_client(deadline),
        me => me,
    }
}

#[cold]
#[inline(never)]
fn await_client(deadline: Option<Deadline>) -> Result<LockOwner, Errno> {
    loop {
        match me() {
            Err(Errno::NOSPC) if deadline.is_some_and(|until| until.remaining().is_zero()) => {
                return Err(Errno::TIMEDOUT);
            }
            Err(Errno::NOSPC) => sleeper::pause_without_slot(deadline),
            me => return me,
        }
    }
}

/// The calling thread.
///
/// # Errors
/// ENOSPC when the pool has no client slot for its process now; EIO when that cannot be a client.
#[inline(always)]
pub fn me() -> Result<LockOwner, Errno> {
    let known = thread_words::with(|words| words.owner.load(Ordering::Relaxed));
    match LockOwner::of(known) {
        Some(owner) if !process::is_unknown_child() => Ok(owner),
        _ => learn(),
    }
}

#[cold]
#[inline(never)]
fn learn() -> Result<LockOwner, Errno> {
    // A child that we did not know of becomes a client of its own.
    let client = current::session()?.client().client_id();
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // A child that can be no client, ever.
    let owner = LockOwner::new(client, thread).map_err(|_| Errno::IO)?;
    thread_words::with(|words| words.owner.store(owner.word(), Ordering::Relaxed));
    Ok(owner)
}
