//! Yielding instead of spinning: for a waiter whose waker runs on the CPU that the waiter occupies.
//!
//! A waiter that spins on that CPU keeps the waker from running. If it sleeps, that takes two
//! system calls (the waiter's with its timer, and the waker's) and the object's lock twice.
//! sched_yield(2) is one system call, and the waker finds the wait queue empty: it takes no lock
//! and wakes no thread. A yield costs less CPU time than a sleep, as both call the scheduler once.
//! So a thread that yields once without success and then sleeps has spent less than twice a sleep.
//!
//! # Fewer yields after a failure
//! After a yield without success the next waits sleep at once; each further failure doubles their
//! number. So a thread that is never answered this way hardly yields.
//!
//! # Other programs on the same CPU
//! The scheduler puts a thread that yields behind all others, and since Linux 6.18 a whole slice
//! behind: beside a program that computes, a yield takes milliseconds where a wake-up takes
//! microseconds. A yield that took so long counts as one without success, whether the answer is
//! there or not.

use vshmem_mem::tuning::yielding::{LONG, LONGEST_REST, PROVEN};
use vshmem_mem::tuning::{FIRST_REST, RUN, SELDOM};
use vshmem_mem::unmodelled::{AtomicU32, Ordering::Relaxed};

/// What yields have come to lately: private to a process.
#[derive(Debug)]
pub(crate) struct Yielding {
    /// Waits that do not yield.
    rest: AtomicU32,
    /// How many there are after the next yield without success.
    next_rest: AtomicU32,
    /// Yields on end that were answered.
    streak: AtomicU32,
    /// Waits that yield rather than look.
    run: AtomicU32,
    /// How many there are after the next yield that is answered.
    next_run: AtomicU32,
}

impl Yielding {
    /// The first [`FIRST_REST`] waits do not yield.
    pub fn new() -> Self {
        Self {
            rest: AtomicU32::new(FIRST_REST),
            next_rest: AtomicU32::new(FIRST_REST),
            streak: AtomicU32::new(0),
            run: AtomicU32::new(0),
            next_run: AtomicU32::new(RUN),
        }
    }

    /// Whether a wait that does not spin is to yield.
    pub fn is_due(&self) -> bool {
        let rest = self.rest.load(Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Relaxed);
        }
        rest == 0
    }

    /// Whether a wait that may spin is to yield instead, as others before it have done with
    /// success.
    pub fn is_better(&self) -> bool {
        let run = self.run.load(Relaxed);
        if run > 0 {
            self.run.store(run - 1, Relaxed);
        }
        run > 0
    }

    /// A poll has succeeded: the waker runs on another CPU.
    pub fn look_has_succeeded(&self) {
        store_changed(&self.run, 0);
        store_changed(&self.next_run, RUN);
    }

    /// A yield of so many ticks was answered.
    pub fn succeed(&self, ticks: u64) {
        if ticks > LONG {
            return self.fail();
        }
        let streak = self.streak.load(Relaxed);
        if streak < PROVEN {
            self.streak.store(streak + 1, Relaxed);
        } else {
            store_changed(&self.next_rest, FIRST_REST);
        }
        if self.run.load(Relaxed) == 0 {
            let run = self.next_run.load(Relaxed);
            self.run.store(run, Relaxed);
            self.next_run.store((run * 2).min(SELDOM), Relaxed);
        }
    }

    /// A yield was without success.
    pub fn fail(&self) {
        let rest = self.next_rest.load(Relaxed);
        self.rest.store(rest, Relaxed);
        self.next_rest.store((rest * 2).min(LONGEST_REST), Relaxed);
        self.streak.store(0, Relaxed);
        self.run.store(0, Relaxed);
    }
}

/// Gives the CPU to another thread that waits for it. Does nothing in unit tests, which use a clock
/// of their own.
pub(crate) fn yield_cpu() {
    #[cfg(not(any(loom, test)))]
    rustix::thread::sched_yield();
}

/// Leaves the cache line alone where nothing changes.
#[inline]
pub(crate) fn store_changed(word: &AtomicU32, value: u32) {
    if word.load(Relaxed) != value {
        word.store(value, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn next_rest(yielding: &Yielding) -> usize {
        (0..=LONGEST_REST).take_while(|_| !yielding.is_due()).count()
    }

    #[test]
    fn a_thread_that_yields_without_success_hardly_yields() {
        let yielding = Yielding::new();
        let mut rests = Vec::new();
        for _ in 0..20 {
            rests.push(next_rest(&yielding) as u32);
            yielding.fail();
        }
        assert_eq!(rests[..4], [FIRST_REST, FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]);
        assert_eq!(rests.last(), Some(&LONGEST_REST));
    }

    #[test]
    fn an_answer_after_a_slice_of_another_program_is_no_success() {
        let yielding = Yielding::new();
        next_rest(&yielding);
        yielding.succeed(LONG);
        assert!(yielding.is_due());
        yielding.succeed(LONG + 1);
        assert_eq!(next_rest(&yielding) as u32, FIRST_REST);
    }

    #[test]
    fn rests_are_short_again_after_many_answers_only() {
        let yielding = Yielding::new();
        (0..3).for_each(|_| yielding.fail());
        (0..PROVEN).for_each(|_| yielding.succeed(1));
        yielding.fail();
        assert_eq!(next_rest(&yielding) as u32, 8 * FIRST_REST);
        (0..=PROVEN).for_each(|_| yielding.succeed(1));
        yielding.fail();
        assert_eq!(next_rest(&yielding) as u32, FIRST_REST);
    }
}
