//! How often credentials of this process may have changed: what is remembered of them holds for one
//! count. 32 bits: a thread would have to miss all but one of them between two calls.

use std::sync::atomic::{AtomicU32, Ordering};

/// Not 0, which stands for what is remembered of nothing.
static CHANGES: AtomicU32 = AtomicU32::new(1);

/// The count as it is now.
#[inline]
pub fn count() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

/// They may have changed.
pub fn note() {
    CHANGES.fetch_add(1, Ordering::Release);
}
