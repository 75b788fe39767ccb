//! Spinning at a semaphore for a while before sleeping: a hand-over that takes no lock.
//!
//! A thread that waits for a single operation watches the semaphore's word and does the operation
//! itself, by the fast path, the moment that it can be done. No thread knows of such a waiter: it
//! is in no wait queue and GETNCNT does not count it, as if it had not called yet. So it spins for
//! some tens of microseconds only (`vshmem_sync::Spin`), and not at all where another thread is in
//! the wait queue already (the fast path is closed then): it comes after them.
//!
//! Spinning only reads the pool. A thread that is killed between two polls leaves nothing behind,
//! as if it had not called. So there is no crash point and no model here: the fast path
//! (`vshmem_sync::Semaphore`) and the wait queue (`wait/`) have theirs.

use std::time::Duration;

use vshmem_mem::signals_handled;
use vshmem_sync::Polled;

use crate::context::Context;
use crate::error::Failure;
use crate::sem::operation::Operation;
use crate::sem::set::Set;
use crate::sem::{fast, undo};
use crate::wait::waker_cpus;

/// A shorter timeout may be over before the spin is.
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);

/// What came of spinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spun {
    /// The operation is done.
    Done,
    /// It has to wait in the wait queue.
    InVain,
    /// The same, and this thread has not spun.
    NotAtAll,
}

/// Spins for a while until the operation can be done.
#[cold]
pub(super) fn await_word(
    context: &Context,
    set: &Set,
    operation: Operation,
    timeout: Option<Duration>,
    signals_seen: u32,
) -> Result<Spun, Failure> {
    let is_short = timeout.is_some_and(|span| span < LEAST_TIMEOUT);
    // The record that is needed for the fast path is made under the lock.
    let has_way = !operation.undo || undo::known_undo_record(context, set)?.is_some();
    if operation.no_wait || is_short || !has_way {
        return Ok(Spun::NotAtAll);
    }
    let semaphore = set.semaphore(context.pool(), operation.number.into())?;
    // A thread is in the wait queue: this operation comes after it, or is what it waits for.
    if semaphore.is_closed()? {
        return Ok(Spun::NotAtAll);
    }
    let mut look = context.spin.begin(waker_cpus::waker_cpu(context), Polled::Word);
    let (mut seen, mut spun) = (None, Spun::NotAtAll);
    while !look.pause_or_end() && signals_handled() == signals_seen {
        let word = semaphore.peek()?;
        if seen == Some(word) {
            continue;
        }
        seen = Some(word);
        if let Some(result) = fast::semop_fast(context, set, &operation)? {
            look.succeed();
            result?;
            return Ok(Spun::Done);
        }
        if semaphore.is_closed()? {
            break;
        }
        spun = Spun::InVain;
    }
    Ok(spun)
}
