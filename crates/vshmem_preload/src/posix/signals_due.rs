//! The signals that threads of this process are to send it for mq_notify(3), each by the number of
//! its registration. A list without a lock, because mq_send may be called in a signal handler, and
//! in a child whose parent has forked in the middle of anything.

use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use vshmem_mem::{Instant, futex_wait, futex_wake};

/// The number of a registration for which no signal is sent.
pub const NO_SIGNAL: u64 = 0;
/// A sender does not wait longer for a signal: its thread may be stopped by a debugger.
const MOST_PATIENCE: Duration = Duration::from_secs(1);

/// Room for a number; used again, and never given back.
struct Entry {
    /// [`NO_SIGNAL`]: none.
    number: AtomicU64,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
/// In a child it goes on from its parent's, whose numbers mean nothing to it.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
/// How many are due no more: a word to sleep on.
static ENDED: AtomicU32 = AtomicU32::new(0);

fn each() -> impl Iterator<Item = &'static Entry> {
    let follow = |at: &AtomicPtr<Entry>| {
        // SAFETY: null, or an entry that `begin` has leaked and published.
        unsafe { at.load(Ordering::Acquire).as_ref() }
    };
    std::iter::successors(follow(&FIRST), move |entry| follow(&entry.next))
}

/// As long as it lives, the signal of a registration is due.
pub struct SignalDue {
    entry: &'static Entry,
    number: u64,
}

impl SignalDue {
    /// A number that no other registration of this process has had; never [`NO_SIGNAL`].
    pub fn begin() -> Self {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_taken = |entry: &&'static Entry| {
            entry.number.compare_exchange(NO_SIGNAL, number, order, failed).is_ok()
        };
        if let Some(entry) = each().find(is_taken) {
            return Self { entry, number };
        }
        let next = AtomicPtr::new(null_mut());
        let entry: &'static Entry =
            Box::leak(Box::new(Entry { number: AtomicU64::new(number), next }));
        let new = from_ref(entry).cast_mut();
        loop {
            let first = FIRST.load(Ordering::Relaxed);
            entry.next.store(first, Ordering::Relaxed);
            if FIRST.compare_exchange(first, new, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Self { entry, number };
            }
        }
    }

    /// Its number.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for SignalDue {
    fn drop(&mut self) {
        self.entry.number.store(NO_SIGNAL, Ordering::Release);
        ENDED.fetch_add(1, Ordering::Release);
        futex_wake(&ENDED);
    }
}

/// Whether the signal of the registration of this number is still due.
fn is_due(number: u64) -> bool {
    each().any(|entry| entry.number.load(Ordering::Acquire) == number)
}

/// Waits until the registration of this number has sent its signal, or need not send it any more.
pub fn await_signal(number: u64) {
    if number == NO_SIGNAL {
        return;
    }
    let patience = Instant::now().after(MOST_PATIENCE);
    loop {
        let ended = ENDED.load(Ordering::Acquire);
        let is_sent = !is_due(number);
        // Once more when it is sent: a handler of this thread runs when a system call returns.
        let expected = if is_sent { ended.wrapping_sub(1) } else { ended };
        let _ = futex_wait(&ENDED, expected, MOST_PATIENCE);
        if is_sent || Instant::now() >= patience {
            return;
        }
    }
}
