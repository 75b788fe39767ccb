//! What a signal handler finds of the thread that it has interrupted.
//!
//! A handler runs between any two instructions of its thread. So each thing that it reads is one
//! word, or several words with a flag: they are valid while the flag is set, and are written only
//! while it is not, in an order that the compiler keeps. All of it is in the thread's static block
//! (`thread_block.rs`).

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::atomic::AtomicU32 as WaitWord;

/// Words of a [`WaiterRecord`].
const WORDS: usize = 5;

/// Where a thread stands in a wait queue, in words whose meaning is the caller's.
pub type WaiterRecord = [u64; WORDS];

/// A thread's part. Zeros are its beginning.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Interrupted {
    /// Handlers that have run.
    pub handled: AtomicU32,
    /// 1 in a call that a cancellation ends.
    pub cancellable: AtomicU32,
    /// Calls of `unless_confined` that are under way.
    pub inside: AtomicU32,
    /// Cancellations that were asked for before that call looked whether one was for its thread.
    pub cancellations_before: AtomicU32,
    /// The word that the thread sleeps on, or is about to.
    pub asleep_on: AtomicPtr<WaitWord>,
    /// 1 while `waiter` is true.
    is_in_wait_queue: AtomicU64,
    waiter: [AtomicU64; WORDS],
}

#[cfg(not(any(loom, miri)))]
mod place {
    use super::Interrupted;

    crate::thread_block! {
        /// The calling thread's part.
        pub fn with: Interrupted, "vshmem_interrupted"
    }
}

#[cfg(any(loom, miri))]
mod place {
    use super::Interrupted;

    thread_local! {
        // SAFETY: zeros are a value of atomic words.
        static HERE: Interrupted = const { unsafe { std::mem::zeroed() } };
    }

    /// Reads where the calling thread stands.
    pub fn with<R>(read: impl FnOnce(&Interrupted) -> R) -> R {
        HERE.with(read)
    }
}

pub(crate) use place::with;

/// Lets signal handlers of this thread know where it stands in a wait queue; before it can be found
/// there by others.
pub fn show_waiter(waiter: WaiterRecord) {
    with(|here| {
        here.is_in_wait_queue.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        for (word, value) in here.waiter.iter().zip(waiter) {
            word.store(value, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
        here.is_in_wait_queue.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    });
}

/// This thread is in no wait queue any more.
pub fn hide_waiter() {
    with(|here| {
        compiler_fence(Ordering::SeqCst);
        here.is_in_wait_queue.store(0, Ordering::Relaxed);
    });
}

/// Whether this thread has said where it stands.
#[must_use]
pub fn is_waiter_shown() -> bool {
    with(|here| here.is_in_wait_queue.load(Ordering::Relaxed) != 0)
}

/// Where the thread stands that this handler has interrupted. Returned once: a handler that comes
/// while another one runs has nothing to do.
#[must_use]
pub fn take_waiter() -> Option<WaiterRecord> {
    with(|here| {
        if here.is_in_wait_queue.load(Ordering::Relaxed) == 0 {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let waiter = here.waiter.each_ref().map(|word| word.load(Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst);
        here.is_in_wait_queue.store(0, Ordering::Relaxed);
        Some(waiter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_sees_its_own_place_and_a_handler_takes_it_once() {
        assert_eq!(take_waiter(), None);
        show_waiter([1, 2, 3, 4, 5]);
        assert!(is_waiter_shown());
        std::thread::spawn(|| assert!(!is_waiter_shown())).join().unwrap();
        assert_eq!(take_waiter(), Some([1, 2, 3, 4, 5]));
        assert_eq!(take_waiter(), None);
        show_waiter([6; 5]);
        hide_waiter();
        assert_eq!(take_waiter(), None);
    }
}
