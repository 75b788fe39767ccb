//! Between which addresses this process has memory of the pool: what each call on a lock compares
//! its address with, before anything else.
//!
//! Whose a lock is must not be read from the lock: any member can write there. Mappings are put
//! into one range of addresses ([`crate::attached::place`]), which one compare tells from all
//! others. Outside of it a lock is the C library's; inside, the attach table has the word: next to
//! nothing of a program's own lies there.
//!
//! What is mapped outside of the range, at an address of the program's choice or because there is
//! no range, has the calls diverted: from then on each compares its address with two bounds more.
//! They only grow, each by itself: whatever two values a thread reads, all that was attached when
//! it came to know the address of a lock lies between them. A kind that is not shared has neither:
//! its locks are the C library's wherever they are.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

/// Bits of an address below the number of its range: 128 GiB.
pub const RANGE_BITS: u32 = 37;
/// Bytes of the largest object that calls compare: one that begins so much before a mapping may
/// end in it.
const LARGEST: usize = 64;
/// The number of no range.
const NONE: usize = usize::MAX;
/// Calls that can be diverted, of one kind.
const MOST_CALLS: usize = 16;

/// Where a call jumps to: read by machine instructions.
pub type Target = AtomicPtr<libc::c_void>;

/// A call that jumps to the C library, and what it is diverted to.
#[derive(Debug)]
struct Call {
    target: AtomicPtr<Target>,
    diverted: Target,
}

impl Call {
    const fn none() -> Self {
        let (target, diverted) = (std::ptr::null_mut(), std::ptr::null_mut());
        Self { target: AtomicPtr::new(target), diverted: AtomicPtr::new(diverted) }
    }
}

/// Where the pool's memory lies, for one kind of objects.
#[derive(Debug)]
#[repr(C)]
pub struct Bounds {
    /// The number of the range, the first word: machine instructions compare with it.
    range: AtomicUsize,
    /// The lowest address outside of it, and one past the highest.
    low: AtomicUsize,
    end: AtomicUsize,
    /// Whether the kind is shared.
    is_followed: AtomicUsize,
    calls: [Call; MOST_CALLS],
}

/// For mutexes, condition variables, read-write locks and barriers.
pub static LOCKS: Bounds = Bounds::none();
/// For semaphores.
pub static SEMAPHORES: Bounds = Bounds::none();

const _: () =
    assert!(std::mem::offset_of!(Bounds, range) == 0, "calls compare with the word there");

impl Bounds {
    const fn none() -> Self {
        Self {
            range: AtomicUsize::new(NONE),
            low: AtomicUsize::new(usize::MAX),
            end: AtomicUsize::new(0),
            is_followed: AtomicUsize::new(0),
            calls: [const { Call::none() }; MOST_CALLS],
        }
    }

    /// The kind is shared. At load, before anything is attached.
    pub fn follow(&self) {
        self.is_followed.store(1, Ordering::Relaxed);
    }

    fn are_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed) != 0
    }

    /// Has a call jump to `diverted` when something is mapped outside of the range. At load.
    pub fn register(&self, target: &'static Target, diverted: *mut libc::c_void) {
        let free = |call: &&Call| call.target.load(Ordering::Relaxed).is_null();
        if let Some(call) = self.calls.iter().find(free) {
            call.diverted.store(diverted, Ordering::Relaxed);
            call.target.store(std::ptr::from_ref(target).cast_mut(), Ordering::Release);
        }
        fence(Ordering::SeqCst);
        if self.end.load(Ordering::Relaxed) != 0 {
            self.divert();
        }
    }

    fn divert(&self) {
        for call in &self.calls {
            let target = call.target.load(Ordering::Acquire);
            // SAFETY: what was registered is a static.
            if let Some(target) = unsafe { target.as_ref() } {
                target.store(call.diverted.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Whether an address is one of the range.
    #[inline(always)]
    pub fn has_in_range(&self, at: usize) -> bool {
        at >> RANGE_BITS == self.range.load(Ordering::Relaxed)
    }

    /// Whether the pool's memory may be there, outside of the range.
    #[inline]
    pub fn hold_outside(&self, at: usize) -> bool {
        self.low.load(Ordering::Relaxed) <= at && at < self.end.load(Ordering::Relaxed)
    }

    /// Whether the pool's memory may be there.
    #[inline(always)]
    pub fn hold(&self, at: usize) -> bool {
        self.has_in_range(at) || self.hold_outside(at)
    }

    fn include(&self, start: usize, end: usize) {
        if !self.are_followed() || self.has_in_range(start) && self.has_in_range(end - 1) {
            return;
        }
        self.include_outside(start.saturating_sub(LARGEST), end);
    }

    #[cold]
    fn include_outside(&self, start: usize, end: usize) {
        self.low.fetch_min(start, Ordering::Relaxed);
        self.end.fetch_max(end, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.divert();
    }
}

/// Whether any kind is shared.
pub fn are_followed() -> bool {
    LOCKS.are_followed() || SEMAPHORES.are_followed()
}

/// What is mapped from now on lies in the range of this number, or else outside.
pub fn set_range(number: usize) {
    for bounds in [&LOCKS, &SEMAPHORES].into_iter().filter(|bounds| bounds.are_followed()) {
        bounds.range.store(number, Ordering::Relaxed);
    }
}

/// Something of the pool's is to be known there. Before the program can know of it.
pub fn include(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes.max(1));
    LOCKS.include(start, end);
    SEMAPHORES.include(start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for the C library's function, and for what asks.
    static THEIRS: u8 = 0;
    static ASKS: u8 = 0;

    fn address(of: &'static u8) -> *mut libc::c_void {
        std::ptr::from_ref(of).cast_mut().cast()
    }

    #[test]
    fn a_call_is_diverted_by_what_is_mapped_outside_of_the_range_alone() {
        static TARGET: Target = AtomicPtr::new(std::ptr::null_mut());
        static LATER: Target = AtomicPtr::new(std::ptr::null_mut());
        let bounds: &'static Bounds = Box::leak(Box::new(Bounds::none()));
        TARGET.store(address(&THEIRS), Ordering::Relaxed);
        bounds.register(&TARGET, address(&ASKS));
        let begin = 5 << RANGE_BITS;
        bounds.include(0x10000, 0x11000);
        assert!(!bounds.hold(0x10000), "the kind is not shared");
        bounds.follow();
        bounds.range.store(5, Ordering::Relaxed);
        bounds.include(begin, begin + 0x1000);
        assert!(bounds.hold(begin) && !bounds.hold(begin - 1) && !bounds.hold(0));
        assert!(!bounds.hold_outside(begin) && !bounds.hold(usize::MAX));
        assert_eq!(TARGET.load(Ordering::Relaxed), address(&THEIRS));
        bounds.include(begin - 0x1000, begin + 0x1000);
        assert_eq!(TARGET.load(Ordering::Relaxed), address(&ASKS));
        assert!(bounds.hold(begin - 1));
        bounds.register(&LATER, address(&ASKS));
        assert_eq!(LATER.load(Ordering::Relaxed), address(&ASKS));
    }

    #[test]
    fn bounds_hold_all_that_was_included() {
        let bounds = Bounds::none();
        bounds.follow();
        for (start, end) in [(0x20000, 0x21000), (0x50000, 0x52000), (0x10000, 0x10001)] {
            bounds.include(start, end);
            assert!(bounds.hold(start) && bounds.hold(end - 1));
        }
        // An object that begins before a mapping may end in it.
        assert!(bounds.hold(0x10000 - LARGEST) && !bounds.hold(0x10000 - LARGEST - 1));
        assert!(bounds.hold(0x51fff) && !bounds.hold(0x52000));
    }
}
