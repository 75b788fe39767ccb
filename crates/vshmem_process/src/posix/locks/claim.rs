//! Getting a claim for a lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use vshmem_ipc::{
    Claimed, Client, Errno, LockMode, LockRange, LockRequest, LockWant, Settled, WaitEnd,
};
use vshmem_mem::{Deadline, signals_handled};

use crate::session::{agent, thread_words};

/// Between two looks of a client that waits for an answer: where an agent has died, or nobody is in
/// the way any more.
const LOOK: Duration = Duration::from_millis(50);
/// How many looks a call that does not wait for locks waits for an agent, before it takes the lock
/// for held.
const MOST_LOOKS: u32 = 60;

/// A claim that a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Had {
    /// The place is alone: that has to be looked at again behind the kernel's lock.
    Alone,
    /// It stays until the want is given back.
    Kept(LockWant),
    /// A lock that conflicts is held elsewhere.
    Held(LockMode, LockRange),
}

/// Where rows of places were seen last.
static HINTS: [AtomicU32; 64] = [const { AtomicU32::new(u32::MAX) }; 64];

/// Whether the place alone may grant locks.
pub(super) fn is_alone(client: &Client, request: &LockRequest) -> Result<bool, Errno> {
    let class = request.class as usize;
    let place = &HINTS[(request.inode as usize * 2 + class) % HINTS.len()];
    let before = place.load(Ordering::Relaxed);
    let mut hint = before;
    let alone = client.lock_is_sole(request, &mut hint)?;
    if hint != before {
        place.store(hint, Ordering::Relaxed);
    }
    Ok(alone)
}

/// Gets the claim, and waits for it as long as the call does.
///
/// # Errors
/// EINTR; ENOLCK.
pub(super) fn have(client: &Client, request: &LockRequest) -> Result<Had, Errno> {
    if is_alone(client, request)? {
        return Ok(Had::Alone);
    }
    match client.lock_ask(request)? {
        Claimed::Alone => Ok(Had::Alone),
        Claimed::Kept(want) => Ok(Had::Kept(want)),
        Claimed::Asked(want) => wait_for(client, request, want).inspect_err(|_| {
            // It may have been answered in the meantime, or be gone.
            let _ = client.lock_give_back(want);
        }),
    }
}

fn wait_for(client: &Client, request: &LockRequest, want: LockWant) -> Result<Had, Errno> {
    let interruptions = thread_words::interruptions();
    let mut looks = 0;
    loop {
        let signals_seen = signals_handled();
        let end = client.lock_wait(want, Deadline::after(LOOK), signals_seen)?;
        match client.lock_settle(request, want)? {
            Settled::Kept => return Ok(Had::Kept(want)),
            Settled::Held(mode, range) => return Ok(Had::Held(mode, range)),
            Settled::Asked => {}
        }
        // A handler that was installed with SA_RESTART does not end the call, as in the kernel.
        if request.blocks && thread_words::interruptions() != interruptions {
            return Err(Errno::INTR);
        }
        agent::ensure_once_a_second();
        looks += u32::from(end == WaitEnd::TimedOut);
        if !request.blocks && looks >= MOST_LOOKS {
            client.lock_give_back(want)?;
            return Ok(Had::Held(LockMode::Exclusive, request.range));
        }
    }
}

/// Gives a claim back that was kept.
pub(super) fn give_back(client: &Client, had: Had) {
    if let Had::Kept(want) = had {
        // Without a thread slot it stays until this process ends.
        let _ = client.lock_give_back(want);
    }
}
