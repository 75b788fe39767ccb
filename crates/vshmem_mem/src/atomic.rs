//! The one place that names atomics, so that a model checker can take their place.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Words that are private to a process and that no model orders: how long it spins, what it counts.
/// Under the model checker as well they are the standard library's.
pub mod unmodelled {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
}

/// Tells the CPU (or the model checker) that this thread is waiting for another one.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
