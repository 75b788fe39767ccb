//! A word that the kernel changes when a thread ends, however it ends: set_robust_list(2).
//!
//! A thread that sleeps for long on something that a process has to see to sleeps on that process's
//! word as well.

use std::sync::atomic::{AtomicU32, Ordering};

/// What the kernel keeps of the word when its owner ends: the thread's number is gone.
const OWNER: u32 = libc::FUTEX_TID_MASK;

/// `struct robust_list_head` of <linux/futex.h>, with its only entry.
#[repr(C)]
#[derive(Debug)]
struct RobustList {
    first: *const RobustEntry,
    offset: libc::c_long,
    pending: *const RobustEntry,
    entry: RobustEntry,
}

#[repr(C)]
#[derive(Debug)]
struct RobustEntry {
    next: *const RobustList,
}

/// Puts the calling thread's number into `word` until it ends; then the kernel takes it out and
/// wakes one waiter, who is to wake the others. A thread has one such word; the C library's robust
/// mutexes must not be used on it. False when the kernel will not have it.
///
/// The mapping of `word` must stay until the thread ends or [`disown`] is called: what has been
/// unmapped cannot be changed, and waiters would wait for their own bound.
pub fn own(word: &AtomicU32) -> bool {
    // Never freed: the kernel reads it as the thread ends.
    let list = Box::leak(Box::new(RobustList {
        first: std::ptr::null(),
        offset: 0,
        pending: std::ptr::null(),
        entry: RobustEntry { next: std::ptr::null() },
    }));
    list.entry.next = list;
    list.first = &raw const list.entry;
    let to_word = word.as_ptr().addr().wrapping_sub(list.first.addr());
    list.offset = to_word.cast_signed() as libc::c_long;
    word.store(mine(), Ordering::SeqCst);
    // SAFETY: the list is of the kernel's shape and size (its head), is never freed, and leads to a
    // word that the caller keeps mapped; the kernel gives up on one that is not.
    let set = unsafe {
        libc::syscall(libc::SYS_set_robust_list, &raw const *list, 3 * size_of::<usize>())
    };
    if set != 0 {
        word.store(0, Ordering::SeqCst);
    }
    set == 0
}

/// Takes the calling thread's number out again, as the kernel would, and wakes all waiters. Does
/// nothing to the word of another thread.
pub fn disown(word: &AtomicU32) {
    if word.compare_exchange(mine(), 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        crate::futex_wake(word);
    }
}

/// What the calling thread puts there: with the mark that another thread waits, as the kernel wakes
/// no thread without.
fn mine() -> u32 {
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    tid & OWNER | libc::FUTEX_WAITERS
}

/// Whether the word has an owner who lives, going by its value.
#[must_use]
pub fn is_owned(value: u32) -> bool {
    value & OWNER != 0
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{FutexOutcome, futex_wait_two};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_end_of_the_owner_wakes_a_waiter() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let mine = AtomicU32::new(7);
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let owner = std::thread::spawn(move || {
            assert!(own(&WORD));
            let _ = ends.recv();
        });
        while !is_owned(WORD.load(Ordering::SeqCst)) {
            std::thread::yield_now();
        }
        let seen = WORD.load(Ordering::SeqCst);
        let waiter = std::thread::spawn(move || {
            let outcome = futex_wait_two((&mine, 7), (&WORD, seen), LONG);
            (outcome, WORD.load(Ordering::SeqCst))
        });
        drop(end);
        owner.join().unwrap();
        let (outcome, value) = waiter.join().unwrap();
        assert!(matches!(outcome, FutexOutcome::Woken | FutexOutcome::Unsupported));
        assert!(!is_owned(value));
    }

    #[test]
    fn a_word_given_back_has_no_owner() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        std::thread::spawn(|| {
            assert!(own(&WORD) && is_owned(WORD.load(Ordering::SeqCst)));
            disown(&WORD);
            assert!(!is_owned(WORD.load(Ordering::SeqCst)));
        })
        .join()
        .unwrap();
    }
}
