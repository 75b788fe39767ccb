//! How a new mapping is locked, as mlockall(2) has set it for all that are to come.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::attached::attach_table::Marks;

/// What mlock2(2) with MLOCK_ONFAULT, and mlockall(2) with MCL_ONFAULT, lock by.
pub const ON_FAULT: Marks = Marks::LOCKED.and(Marks::LOCKED_ON_FAULT);

/// How mlockall(2) wants what is mapped from now on; MCL_ bits.
static LATER: AtomicU32 = AtomicU32::new(0);

/// What a new mapping is locked by.
pub fn locks_of_new() -> Marks {
    let flags = LATER.load(Ordering::Relaxed) as c_int;
    if flags & libc::MCL_FUTURE == 0 { Marks::none() } else { locks_of_all(flags) }
}

/// A child has none of its parent's locks.
pub fn begin_child() {
    // A word that is stored is a page that the kernel copies.
    if LATER.load(Ordering::Relaxed) != 0 {
        LATER.store(0, Ordering::Relaxed);
    }
}

/// What mlockall(2) locks mappings by.
pub fn locks_of_all(flags: c_int) -> Marks {
    if flags & libc::MCL_ONFAULT != 0 { ON_FAULT } else { Marks::LOCKED }
}

/// mlockall(2) was called with these flags, or munlockall(2), which is 0.
pub fn set(flags: c_int) {
    LATER.store(flags as u32, Ordering::Relaxed);
}
