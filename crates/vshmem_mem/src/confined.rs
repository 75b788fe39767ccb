//! Whether this program has confined itself: then no system call is made that it may have forbidden
//! itself.

use std::sync::atomic::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// To be called before a program confines itself (seccomp(2)), and when it could not: threads sleep
/// on one word only, with futex(2), even if asked to sleep on two, and what is asked only to be
/// faster is not asked any more.
pub fn confine(confined: bool) {
    CONFINED.store(confined, Ordering::Relaxed);
}

/// Whether it has.
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// The gate for system calls that are not on the list of docs/reference/sysv-differences.md
/// ("Filters of system calls"): `work` makes them, in a program that has not confined itself.
/// `None` in one that has; what is done then must do with the calls on the list.
#[inline]
pub fn unless_confined<T>(work: impl FnOnce() -> T) -> Option<T> {
    (!is_confined()).then(work)
}
