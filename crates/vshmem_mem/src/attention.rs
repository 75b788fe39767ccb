//! A sleep that a signal handler always ends.
//!
//! The kernel ends a blocking call with EINTR when a handler runs while it sleeps. A call made of
//! several steps in user space has gaps between its sleeps, and a handler that runs in a gap would
//! go unnoticed. So the preload library counts handler runs here, and the handler also changes
//! the word that its thread is about to sleep on.

use std::cell::Cell;
use std::time::Duration;

use crate::atomic::{AtomicU32, Ordering};
use crate::futex::{FutexOutcome, futex_wait};

thread_local! {
    static HANDLED: Cell<u32> = const { Cell::new(0) };
    static ASLEEP_ON: Cell<*const AtomicU32> = const { Cell::new(std::ptr::null()) };
}

/// A wait word holds this bit while its owner sleeps or is about to.
pub const SLEEPING: u32 = 1;
/// What a ring adds.
pub const RING: u32 = 2;

/// To be called at the start of every signal handler, in the handler.
pub fn signal_handled() {
    HANDLED.with(|count| count.set(count.get().wrapping_add(1)));
    let word = ASLEEP_ON.with(Cell::get);
    if !word.is_null() {
        // SAFETY: `sleep` keeps the word alive while the pointer is set, and clears the pointer
        // on this same thread before it returns.
        unsafe { (*word).fetch_add(RING, Ordering::Release) };
    }
}

/// How many handlers have run on this thread so far.
#[must_use]
pub fn signals_handled() -> u32 {
    HANDLED.with(Cell::get)
}

/// Sleeps on `word` unless it differs from `expected`; ends with `Interrupted` when a handler has
/// run since `signals_handled` returned `seen`.
#[must_use]
pub fn sleep(word: &AtomicU32, expected: u32, timeout: Duration, seen: u32) -> FutexOutcome {
    let outer = ASLEEP_ON.with(|slot| slot.replace(word));
    let outcome = if signals_handled() == seen {
        futex_wait(word, expected, timeout)
    } else {
        FutexOutcome::Interrupted
    };
    ASLEEP_ON.with(|slot| slot.set(outer));
    if signals_handled() == seen { outcome } else { FutexOutcome::Interrupted }
}
