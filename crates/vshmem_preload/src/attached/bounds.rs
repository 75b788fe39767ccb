//! Between which addresses this process has memory of the pool: what each call on a lock compares
//! its address with, before anything else.
//!
//! Whose a lock is must not be read from the lock: any member can write there. Outside of these
//! bounds it is the C library's, which two compares say. Inside, the attach table has the word.
//! Mappings are put beside each other ([`crate::attached::place`]), so that next to nothing of a
//! program's own lies between them.
//!
//! Bounds only grow, each by itself: whatever two values a thread reads, all that was attached when
//! it came to know the address of a lock lies between them. A kind that is not shared has none: its
//! locks are the C library's wherever they are.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the largest object that calls compare: one that begins so much before a mapping may
/// end in it.
const LARGEST: usize = 64;

/// The lowest and the highest address of the pool's memory, for one kind of objects. Read by
/// machine instructions, which know where its words are.
#[derive(Debug)]
#[repr(C)]
pub struct Bounds {
    low: AtomicUsize,
    /// One past the highest.
    end: AtomicUsize,
    /// Whether the kind is shared.
    is_followed: AtomicUsize,
}

/// For mutexes, condition variables, read-write locks and barriers.
pub static LOCKS: Bounds = Bounds::none();
/// For semaphores.
pub static SEMAPHORES: Bounds = Bounds::none();

impl Bounds {
    /// Where the low word is.
    pub const LOW_AT: usize = std::mem::offset_of!(Self, low);
    /// Where the other is.
    pub const END_AT: usize = std::mem::offset_of!(Self, end);

    const fn none() -> Self {
        Self {
            low: AtomicUsize::new(usize::MAX),
            end: AtomicUsize::new(0),
            is_followed: AtomicUsize::new(0),
        }
    }

    /// The kind is shared. At load, before anything is attached.
    pub fn follow(&self) {
        self.is_followed.store(1, Ordering::Relaxed);
    }

    /// Whether the pool's memory may be there.
    #[inline(always)]
    pub fn hold(&self, at: usize) -> bool {
        self.low.load(Ordering::Relaxed) <= at && at < self.end.load(Ordering::Relaxed)
    }

    fn include(&self, start: usize, end: usize) {
        if self.is_followed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let start = start.saturating_sub(LARGEST);
        // A read-modify-write costs more than all else that an attach does here.
        if self.low.load(Ordering::Relaxed) > start {
            self.low.fetch_min(start, Ordering::Relaxed);
        }
        if self.end.load(Ordering::Relaxed) < end {
            self.end.fetch_max(end, Ordering::Relaxed);
        }
    }
}

/// Whether any kind is shared.
pub fn are_followed() -> bool {
    [&LOCKS, &SEMAPHORES].iter().any(|bounds| bounds.is_followed.load(Ordering::Relaxed) != 0)
}

/// Something of the pool's is to be known there. Before the program can know of it.
pub fn include(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    LOCKS.include(start, end);
    SEMAPHORES.include(start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_all_that_was_included_and_nothing_of_a_kind_that_is_not_shared() {
        let bounds = Bounds::none();
        bounds.include(0x10000, 0x11000);
        assert!(!bounds.hold(0x10000));
        bounds.follow();
        assert!(!bounds.hold(0) && !bounds.hold(usize::MAX));
        for (start, end) in [(0x20000, 0x21000), (0x50000, 0x52000), (0x10000, 0x10001)] {
            bounds.include(start, end);
            assert!(bounds.hold(start) && bounds.hold(end - 1));
        }
        // An object that begins before a mapping may end in it.
        assert!(bounds.hold(0x10000 - LARGEST) && !bounds.hold(0x10000 - LARGEST - 1));
        assert!(bounds.hold(0x51fff) && !bounds.hold(0x52000));
    }
}
