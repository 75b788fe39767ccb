//! A few words of each thread, in its static block: what locks know of the thread that calls.
//!
//! Handlers read them, and locks do each time.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A thread's words. Zeros are their beginning.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadWords {
    /// The thread as the owner of a lock; 0 while it is not known.
    pub owner: AtomicU64,
    /// Robust mutexes that the thread holds: an array of addresses.
    pub held: AtomicPtr<AtomicUsize>,
    /// How many these are.
    pub held_count: AtomicUsize,
    /// Handlers that have run and were installed without SA_RESTART.
    pub interrupting: AtomicU32,
    /// A page in which nothing is attached.
    pub outside: KnownPage,
}

/// A page of which something was known while a count had a value.
#[derive(Debug)]
#[repr(C)]
pub struct KnownPage {
    page: AtomicUsize,
    count: AtomicU64,
    /// Both: a handler may have written one of them while its thread wrote the other.
    both: AtomicU64,
}

impl KnownPage {
    /// Whether it is that page, and the count is still the same. Page 0 is known at first, which no
    /// lock lies in.
    #[inline]
    pub fn is(&self, page: usize, count: u64) -> bool {
        self.page.load(Ordering::Relaxed) == page
            && self.count.load(Ordering::Relaxed) == count
            && self.both.load(Ordering::Relaxed) == Self::both_of(page, count)
    }

    /// It is that page from now on.
    pub fn set(&self, page: usize, count: u64) {
        self.page.store(page, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.both.store(Self::both_of(page, count), Ordering::Relaxed);
    }

    const fn both_of(page: usize, count: u64) -> u64 {
        page as u64 ^ count
    }
}

vshmem_mem::thread_block! {
    /// The calling thread's words.
    pub fn with: ThreadWords, "vshmem_thread_words"
}

/// In a child: its only thread is another one, of another client, and holds nothing.
pub fn begin_child() {
    with(|words| {
        words.owner.store(0, Ordering::Relaxed);
        words.held_count.store(0, Ordering::Relaxed);
    });
}

/// A handler runs that was installed without SA_RESTART.
pub fn note_interruption() {
    with(|words| {
        let seen = words.interrupting.load(Ordering::Relaxed);
        words.interrupting.store(seen.wrapping_add(1), Ordering::Relaxed);
    });
}

/// How many such handlers have run on this thread.
pub fn interruptions() -> u32 {
    with(|words| words.interrupting.load(Ordering::Relaxed))
}
