//! The signals that this process is to be sent for mq_notify(3), each by the number of its
//! registration. The thread that takes one out of the list sends it: the thread of this process
//! that has sent the message, or else the one that is registered. A list without a lock, because
//! mq_send may be called in a signal handler, and in a child whose parent has forked in the middle
//! of anything.

use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::c_int;

use crate::next::system_call;

/// The number of a registration for which no signal is due.
pub const NO_SIGNAL: u64 = 0;
/// An entry in which a signal is being written down. No registration has this number.
const BEING_FILLED: u64 = u64::MAX;
/// SI_MESGQ.
const BY_QUEUE: c_int = -3;

/// A signal with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalDue {
    /// 1 to 64.
    pub signal: c_int,
    /// `sigev_value`.
    pub value: usize,
    /// The process that has registered: in a child of vfork it is the parent.
    pub process: u32,
}

/// Room for a signal; used again, and never given back.
struct Entry {
    /// [`NO_SIGNAL`]: free.
    number: AtomicU64,
    signal: AtomicI32,
    value: AtomicUsize,
    process: AtomicU32,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
/// 64 bits do not come round: a registration starts a thread. In a child it goes on from its
/// parent's, whose numbers mean nothing to it.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

fn each() -> impl Iterator<Item = &'static Entry> {
    let follow = |at: &AtomicPtr<Entry>| {
        // SAFETY: null, or an entry that `new_entry` has leaked and published.
        unsafe { at.load(Ordering::Acquire).as_ref() }
    };
    std::iter::successors(follow(&FIRST), move |entry| follow(&entry.next))
}

/// Writes a signal down, under a number that no other registration of this process has had; never
/// [`NO_SIGNAL`].
pub fn put(due: SignalDue) -> u64 {
    let is_mine = |entry: &&'static Entry| {
        let number = &entry.number;
        // Acquires: pairs with the release in `take`, whose reads were of the former signal.
        number
            .compare_exchange(NO_SIGNAL, BEING_FILLED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    let entry = each().find(is_mine).unwrap_or_else(new_entry);
    entry.signal.store(due.signal, Ordering::Relaxed);
    entry.value.store(due.value, Ordering::Relaxed);
    entry.process.store(due.process, Ordering::Relaxed);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    entry.number.store(number, Ordering::Release);
    number
}

/// A further entry of the list, which is being filled.
fn new_entry() -> &'static Entry {
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        number: AtomicU64::new(BEING_FILLED),
        signal: AtomicI32::new(0),
        value: AtomicUsize::new(0),
        process: AtomicU32::new(0),
        next: AtomicPtr::new(null_mut()),
    }));
    let new = from_ref(entry).cast_mut();
    loop {
        let first = FIRST.load(Ordering::Relaxed);
        entry.next.store(first, Ordering::Relaxed);
        if FIRST.compare_exchange(first, new, Ordering::Release, Ordering::Relaxed).is_ok() {
            return entry;
        }
    }
}

/// Takes the signal of this number out, once: the caller alone has been given the number, as the
/// one who is to send it or as the thread whose registration was taken back.
pub fn take(number: u64) -> Option<SignalDue> {
    if number == NO_SIGNAL {
        return None;
    }
    // Acquires: pairs with the release in `put`.
    let entry = each().find(|entry| entry.number.load(Ordering::Acquire) == number)?;
    let due = SignalDue {
        signal: entry.signal.load(Ordering::Relaxed),
        value: entry.value.load(Ordering::Relaxed),
        process: entry.process.load(Ordering::Relaxed),
    };
    entry.number.store(NO_SIGNAL, Ordering::Release);
    Some(due)
}

impl SignalDue {
    /// Sends it, for a message of the process `sender`: 0 if that is of another domain.
    pub fn send(self, sender: u32) {
        /// `siginfo_t` of a signal with a value.
        #[repr(C)]
        struct Information {
            signal: c_int,
            errno: c_int,
            code: c_int,
            padding: c_int,
            pid: u32,
            uid: u32,
            value: usize,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<Information>() == size_of::<libc::siginfo_t>());
        let information = Information {
            signal: self.signal,
            errno: 0,
            code: BY_QUEUE,
            padding: 0,
            pid: sender,
            uid: rustix::process::getuid().as_raw(),
            value: self.value,
            rest: [0; 12],
        };
        let words = [self.process as usize, self.signal as usize, (&raw const information).addr()];
        // SAFETY: the kernel copies the information, which is as long as it has to be.
        unsafe { system_call(libc::SYS_rt_sigqueueinfo, words) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads put and take at the same time, each in the entries that the others have left.
    #[test]
    fn a_signal_is_taken_once_by_its_number() {
        const TURNS: usize = if cfg!(miri) { 20 } else { 10_000 };
        let due = |of: usize| SignalDue { signal: of as c_int, value: of, process: of as u32 };
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let (first, second) = (due(thread), due(thread + 10 * turn));
                        let numbers = (put(first), put(second));
                        assert_ne!(numbers.0, numbers.1);
                        assert_eq!(take(numbers.1), Some(second));
                        assert_eq!(take(numbers.0), Some(first));
                        assert_eq!(take(numbers.1), None);
                    }
                });
            }
        });
        assert_eq!(take(NO_SIGNAL), None);
        assert!(each().count() <= 8, "entries are used again");
    }
}
