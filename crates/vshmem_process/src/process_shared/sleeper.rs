//! Sleeping and waking by address, in whatever the program has attached.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use vshmem_ipc::{Errno, Futex, LockOwner, WaitEnd, Woke};
use vshmem_mem::{Deadline, signals_handled, sleep_shortly};

use crate::attached::{attach_table, pieces};
use crate::session::current;

/// How long a thread waits before it tries again, when the pool has no slot for it or its process.
const NO_SLOT: Duration = Duration::from_millis(1);

/// Waits for that long, or until the deadline.
pub fn pause_without_slot(deadline: Option<Deadline>) {
    sleep_shortly(deadline.map_or(NO_SLOT, |deadline| deadline.remaining().min(NO_SLOT)));
}

/// Where in the pool an object of the program's lies; `None` when it does not, or not whole.
pub fn offset_of<T>(object: *const T) -> Option<u64> {
    let (at, bytes) = (object.addr(), size_of::<T>());
    let find = || pieces::find(|piece| piece.holds(at, bytes));
    // Not consistent: this is a handler that has interrupted a change of its own thread. Nearly all
    // pieces are in their places even so.
    let piece = attach_table::read_consistent(find).unwrap_or_else(find)?;
    (piece.rest(at) >= bytes).then(|| piece.offset_of(at))
}

/// Wakes at most `most` threads that sleep at the word at `offset` of the pool.
pub fn wake_at(offset: u64, most: u32) -> Woke {
    loop {
        let woke = current::session().and_then(|session| session.client().futex_wake(offset, most));
        match woke {
            // A thread that sleeps relies on it.
            Err(Errno::NOMEM | Errno::NOSPC) => pause_without_slot(None),
            result => return result.unwrap_or_default(),
        }
    }
}

/// How a call sleeps.
#[derive(Debug)]
pub struct Sleeper {
    /// What `signals_handled` said when the call began, if handlers end its sleeps.
    signals_seen: Cell<Option<u32>>,
    /// Whether they end the first sleep alone.
    once: bool,
}

impl Sleeper {
    /// For calls that handlers do not end.
    pub const fn uninterrupted() -> Self {
        Self { signals_seen: Cell::new(None), once: true }
    }

    /// For a call that is ended by what comes after `signals_seen`.
    pub const fn interrupted_after(signals_seen: u32) -> Self {
        Self { signals_seen: Cell::new(Some(signals_seen)), once: false }
    }

    /// For a call whose first sleep is ended by it.
    pub const fn interrupted_once_after(signals_seen: u32) -> Self {
        Self { signals_seen: Cell::new(Some(signals_seen)), once: true }
    }

    fn signals_seen(&self) -> u32 {
        let seen = if self.once { self.signals_seen.take() } else { self.signals_seen.get() };
        seen.unwrap_or_else(signals_handled)
    }
}

/// How often a thread looks that has a slot: before it is in the wait queue, and then.
const FIRST_LOOKS: u32 = 2;

fn end_of_look(
    waits: &mut dyn FnMut() -> bool,
    deadline: Option<Deadline>,
    signals_seen: u32,
) -> WaitEnd {
    if waits() && signals_handled() != signals_seen {
        WaitEnd::Interrupted
    } else if deadline.is_some_and(|deadline| deadline.remaining().is_zero()) {
        WaitEnd::TimedOut
    } else {
        WaitEnd::Changed
    }
}

impl Futex for Sleeper {
    fn spin(&self, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        match current::session() {
            Ok(session) => session.client().futex_spin(wakers, waits),
            Err(_) => !waits(),
        }
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        let signals_seen = self.signals_seen();
        let session = match current::watchful_session() {
            // The process is no client, and cannot be found by those that wake: the caller looks.
            Err(Errno::NOSPC) => {
                pause_without_slot(deadline);
                return Ok(end_of_look(waits, deadline, signals_seen));
            }
            session => session?,
        };
        let offset = offset_of(word).ok_or(Errno::INVAL)?;
        // A thread without a slot looks many times: what it looks at may have been detached since,
        // after the wake-up that it has not seen yet.
        let mut looks = 0u32;
        let mut waits = || {
            looks = looks.saturating_add(1);
            (looks <= FIRST_LOOKS || offset_of(word) == Some(offset)) && waits()
        };
        session.client().futex_wait(offset, &mut waits, deadline, signals_seen)
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        offset_of(word).map_or_else(Woke::default, |offset| wake_at(offset, most))
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        current::session().is_ok_and(|session| session.client().has_ended(owner))
    }
}
