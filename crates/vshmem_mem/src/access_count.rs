//! How often this thread has looked into a pool: what a call costs, without a clock. Compiled in
//! for tests only.

#[cfg(feature = "crash-points")]
std::thread_local! {
    static ACCESSES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts an access. Nothing happens unless the feature is on.
#[inline(always)]
pub(crate) fn count_access() {
    #[cfg(feature = "crash-points")]
    ACCESSES.set(ACCESSES.get() + 1);
}

/// The accesses of this thread to words, cells and ranges of any pool.
#[cfg(feature = "crash-points")]
#[must_use]
pub fn accesses() -> u64 {
    ACCESSES.get()
}
