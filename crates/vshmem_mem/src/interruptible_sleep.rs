//! A sleep that a signal handler always ends.
//!
//! The kernel ends a blocking call with EINTR when a handler runs while it sleeps. A call made of
//! several steps in user space has gaps between its sleeps, and a handler that runs in a gap would
//! go unnoticed. So the preload library counts handler runs here, and the handler also changes
//! the word that its thread is about to sleep on.

use std::sync::atomic::compiler_fence;
use std::time::Duration;

use crate::atomic::{AtomicU32, Ordering};
use crate::confined::is_confined;
use crate::futex::{FutexOutcome, futex_wait, futex_wait_two};
use crate::interrupted::with;

/// Threads of this process that were asked to end (pthread_cancel).
/// Not a part of any model.
static CANCELLATIONS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// A wait word holds this bit while its owner sleeps or is about to.
pub const SLEEPING: u32 = 1;
/// What a wake-up adds.
pub const WAKE: u32 = 2;

/// To be called at the start of every signal handler, in the handler.
pub fn signal_handled() {
    with(|here| {
        // A handler that interrupts this one has counted itself. What is lost of the sum is no
        // matter: it differs from what the interrupted call has seen.
        let handled = here.handled.load(Ordering::Relaxed);
        here.handled.store(handled.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `sleep`: either the count is seen there, or the word here.
        compiler_fence(Ordering::SeqCst);
        let word = here.asleep_on.load(Ordering::Relaxed);
        if !word.is_null() {
            // SAFETY: `sleep` keeps the word alive while the pointer is set, and clears the pointer
            // on this same thread before it returns.
            unsafe { (*word).fetch_add(WAKE, Ordering::Release) };
        }
    });
}

/// How many handlers have run on this thread so far; and how many cancellations were asked for, in
/// a call that they end.
#[must_use]
pub fn signals_handled() -> u32 {
    with(|here| {
        let handled = here.handled.load(Ordering::Relaxed);
        if here.cancellable.load(Ordering::Relaxed) != 0 {
            handled.wrapping_add(CANCELLATIONS.load(Ordering::Relaxed))
        } else {
            handled
        }
    })
}

/// To be called when some thread of this process was asked to end.
pub fn cancellation_requested() {
    CANCELLATIONS.fetch_add(1, Ordering::Release);
}

/// What [`signals_handled`] gave when a call that begins to wait now had not been interrupted yet:
/// handlers that have run up to now did so before its sleep. A cancellation may have been asked for
/// since the call began, and ends this sleep.
#[must_use]
pub fn signals_before_wait() -> u32 {
    with(|here| {
        let handled = here.handled.load(Ordering::Relaxed);
        if here.cancellable.load(Ordering::Relaxed) != 0 {
            handled.wrapping_add(here.cancellations_before.load(Ordering::Relaxed))
        } else {
            handled
        }
    })
}

/// Makes a call whose sleep ends as by a signal handler when a cancellation was asked for since
/// `before`. The caller looks between the two whether an earlier one is for this thread.
pub fn cancellable<T>(before: Interruptions, call: impl FnOnce() -> T) -> T {
    let outer = with(|here| {
        let cancellable = here.cancellable.load(Ordering::Relaxed);
        let cancellations = here.cancellations_before.load(Ordering::Relaxed);
        here.cancellations_before.store(before.cancellations, Ordering::Relaxed);
        here.cancellable.store(1, Ordering::Relaxed);
        (cancellable, cancellations)
    });
    let result = call();
    with(|here| {
        here.cancellable.store(outer.0, Ordering::Relaxed);
        here.cancellations_before.store(outer.1, Ordering::Relaxed);
    });
    result
}

/// Runs a signal handler of the program's: its calls are not the one that it has interrupted, and
/// end with a cancellation only if they are cancellation points themselves. Nor is that call under
/// way any more when the handler leaves it by siglongjmp.
pub fn outside_of_cancellable<T>(handler: impl FnOnce() -> T) -> T {
    let (cancellable, before) = with(|here| {
        let cancellable = here.cancellable.load(Ordering::Relaxed);
        here.cancellable.store(0, Ordering::Relaxed);
        (cancellable, here.cancellations_before.load(Ordering::Relaxed))
    });
    let result = handler();
    with(|here| {
        here.cancellations_before.store(before, Ordering::Relaxed);
        here.cancellable.store(cancellable, Ordering::Relaxed);
    });
    result
}

/// What has interrupted this thread up to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Interruptions {
    handled: u32,
    cancellations: u32,
}

impl Interruptions {
    /// Up to now.
    #[must_use]
    pub fn now() -> Self {
        let handled = with(|here| here.handled.load(Ordering::Relaxed));
        // Pairs with `cancellation_requested`: the thread's own flag is read later, and says at
        // least what it said when this cancellation was counted.
        Self { handled, cancellations: CANCELLATIONS.load(Ordering::Acquire) }
    }

    /// What `signals_handled` gave then, in a call that cancellations end.
    #[must_use]
    pub fn count(self) -> u32 {
        self.handled.wrapping_add(self.cancellations)
    }

    /// Whether what has come since then are cancellations only.
    #[must_use]
    pub fn are_cancellations(self) -> bool {
        let now = Self::now();
        now.handled == self.handled && now.cancellations != self.cancellations
    }

    /// Whether cancellations have come since then.
    #[must_use]
    pub fn have_cancellations(self) -> bool {
        Self::now().cancellations != self.cancellations
    }
}

/// Another word to sleep on at the same time.
#[derive(Debug, Clone, Copy)]
pub struct SecondWord<'a> {
    /// The word.
    pub word: &'a AtomicU32,
    /// What it is expected to hold.
    pub expected: u32,
    /// How long to sleep at most where the kernel cannot sleep on two words (before 5.16).
    pub alone: Duration,
}

/// Sleeps on `word` unless it differs from `expected`, and on another in the same way if there is
/// one; ends with `Interrupted` when a handler has run since `signals_before_wait` gave `seen`.
#[must_use]
pub fn sleep(
    word: &AtomicU32,
    expected: u32,
    second_word: Option<SecondWord<'_>>,
    timeout: Duration,
    seen: u32,
) -> FutexOutcome {
    let outer = with(|here| {
        let outer = here.asleep_on.load(Ordering::Relaxed);
        here.asleep_on.store(std::ptr::from_ref(word).cast_mut(), Ordering::Relaxed);
        outer
    });
    // The word is shown before the count is read; pairs with the fence in `signal_handled`.
    compiler_fence(Ordering::SeqCst);
    let outcome = if signals_handled() == seen {
        match second_word {
            None => futex_wait(word, expected, timeout),
            // It may have forbidden itself the call for two.
            Some(other) if is_confined() => futex_wait(word, expected, timeout.min(other.alone)),
            Some(other) => {
                match futex_wait_two((word, expected), (other.word, other.expected), timeout) {
                    FutexOutcome::Unsupported => {
                        futex_wait(word, expected, timeout.min(other.alone))
                    }
                    outcome => outcome,
                }
            }
        }
    } else {
        FutexOutcome::Interrupted
    };
    with(|here| here.asleep_on.store(outer, Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    if signals_handled() == seen { outcome } else { FutexOutcome::Interrupted }
}

/// Stops this process, and this thread at this very instruction. One that is sent to the process
/// stops another thread first, and this one runs on until the stop has got round.
#[cfg(feature = "crash-points")]
pub fn stop_here() {
    // SAFETY: raise sends a signal to the calling thread; SIGSTOP has no handler.
    unsafe { libc::raise(libc::SIGSTOP) };
}
