//! Whether this program has confined itself: then no system call is made that it may have forbidden
//! itself.
//!
//! A filter may come to all threads at once, while one of them is about to make such a call. So the
//! threads that are in the middle of one are counted, and a filter of all threads waits for them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::interrupted::with;
use crate::system_call::system_call;

/// [`IN_FORCE`], and how many threads are about to confine the program.
static CONFINED: AtomicU32 = AtomicU32::new(0);
/// A filter is in force, and stays.
const IN_FORCE: u32 = 1 << 31;

/// Calls of [`unless_confined`] that are under way, of all threads.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// How often a filter looks whether the calls of other threads are over, and how long it sleeps in
/// between: a quarter of a second in all, longer where the kernel's clock has coarse ticks. They
/// take milliseconds; but a thread may have left one for good (siglongjmp out of a handler), or two
/// threads may wait for each other from handlers.
const LOOKS: u32 = 250;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The threads that a filter comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// The calling thread, and those that it makes from then on.
    OneThread,
    /// All threads at once: SECCOMP_FILTER_FLAG_TSYNC.
    AllThreads,
}

/// Makes a call that confines the program (seccomp(2)), and gives -1 if it could not. From before
/// it on, threads sleep on one word only, with futex(2), even if asked to sleep on two, and what is
/// asked only to be faster is not asked any more. Once a filter is in force, no attempt that fails
/// ends that.
pub fn confine(threads: Confined, call: impl FnOnce() -> i32) -> i32 {
    // Pairs with `unless_confined`: either that sees this, or its call is seen here.
    CONFINED.fetch_add(1, Ordering::SeqCst);
    wait_for_others(threads, || {
        let span = [0, BETWEEN_LOOKS.as_nanos() as i64];
        // SAFETY: the kernel reads a time, which is there until the call is over. This call is on
        // the list: a filter may be in force already.
        unsafe { system_call(libc::SYS_nanosleep, [span.as_ptr().addr(), 0]) };
    });
    let result = call();
    if result != -1 {
        CONFINED.fetch_or(IN_FORCE, Ordering::SeqCst);
    }
    CONFINED.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Returns when no other thread is inside to which the filter comes. This one may be: a handler has
/// interrupted it. A thread that this one makes comes after the filter.
fn wait_for_others(threads: Confined, mut pause: impl FnMut()) {
    if threads == Confined::OneThread {
        return;
    }
    let own = with(|here| here.inside.load(Ordering::Relaxed));
    for _ in 0..LOOKS {
        if INSIDE.load(Ordering::SeqCst) <= own {
            return;
        }
        pause();
    }
}

/// Whether it has, or is about to.
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed) != 0
}

/// The gate for system calls that are not on the list of docs/reference/sysv-differences.md
/// ("Filters of system calls"): `work` makes them, in a program that has not confined itself.
/// `None` in one that has; what is done then must do with the calls on the list.
#[inline]
pub fn unless_confined<T>(work: impl FnOnce() -> T) -> Option<T> {
    if is_confined() {
        return None;
    }
    // In this order: a handler that confines the program in between waits in vain for a while, and
    // passes over no other thread.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    with(|here| add(&here.inside, 1));
    let is_open = CONFINED.load(Ordering::SeqCst) == 0;
    let result = is_open.then(work);
    with(|here| add(&here.inside, u32::MAX));
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Adds to a word of this thread's, modulo 2^32. A handler in between leaves it as it was.
fn add(word: &AtomicU32, what: u32) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(what), Ordering::Relaxed);
}

/// To be called in a child that `fork` has made, by its only thread. What the parent's other
/// threads were about to confine stays confined: the filter may have come before the child.
pub(crate) fn begin_child() {
    INSIDE.store(with(|here| here.inside.load(Ordering::Relaxed)), Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_filter_of_all_threads_waits_for_the_calls_of_others_and_one_of_a_thread_does_not() {
        let ((tell, is_inside), (leave, may_leave)) = (channel(), channel());
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                unless_confined(|| {
                    tell.send(()).unwrap();
                    may_leave.recv().unwrap();
                })
            });
            is_inside.recv().unwrap();
            wait_for_others(Confined::OneThread, || panic!("it comes to no other thread"));
            let mut looks = 0;
            wait_for_others(Confined::AllThreads, || {
                looks += 1;
                if looks == 3 {
                    leave.send(()).unwrap();
                }
                if looks >= 3 {
                    while INSIDE.load(Ordering::SeqCst) != 0 {
                        std::thread::yield_now();
                    }
                }
            });
            assert_eq!((looks, other.join().unwrap()), (3, Some(())));
        });
    }
}
