//! The calling thread as the owner of a lock.

use std::sync::atomic::Ordering;

use vshmem_ipc::{Errno, LockOwner};

use crate::process;
use crate::session::{current, thread_words};

/// The calling thread.
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
    let owner = LockOwner::new(client, rustix::thread::gettid().as_raw_nonzero().get() as u32)?;
    thread_words::with(|words| words.owner.store(owner.word(), Ordering::Relaxed));
    Ok(owner)
}
