//! sem_t.
//!
//! The upper half of the word counts the threads in the slow part of a wait. Each takes itself off
//! the count, in the same step that takes from the value. So every post knows whether somebody may
//! sleep, and wakes one: none depends on a thread that was woken before and has not run since (it
//! may be stopped, and its guest paused). While the count is zero a post is one compare-and-swap
//! and calls nothing. A post cannot keep a bit and clear it later, when it finds nobody asleep: it
//! may not touch the semaphore again. A thread that dies in a wait leaves the count too high. Posts
//! then look at a queue that is empty, and nothing else comes of it.

use rustix::io::Errno;
use vshmem_mem::{AtomicU64, Deadline, Ordering};

use super::futex::{Futex, WaitEnd};
use crate::crash::crash_point;

/// The highest value (SEM_VALUE_MAX).
pub const SEM_VALUE_MAX: u32 = 0x7fff_ffff;
const VALUE: u64 = 0xffff_ffff;
/// One thread that sleeps, is about to, or was woken and has not returned yet: glibc has its count
/// of them there as well.
const WAITER: u64 = 1 << 32;

/// A process-shared semaphore in the memory of a pool, where glibc has its sem_t.
#[derive(Debug)]
#[repr(C)]
pub struct SharedSemaphore {
    word: AtomicU64,
    unused: [AtomicU64; 2],
    mark: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SharedSemaphore>() == 32
        && core::mem::offset_of!(SharedSemaphore, mark) == SharedSemaphore::MARK_AT,
    "as sem_t of glibc on 64 bits"
);

impl SharedSemaphore {
    /// Offset of the word by which [`SharedSemaphore::is_marked`] tells. glibc's sem_init leaves it
    /// as it is: before that is called for memory that may have been one of these, clear it.
    pub const MARK_AT: usize = 24;
    /// Stands where glibc has nothing.
    pub const MARK: u64 = 0xd6ad_766d_7365_6d00;

    /// Whether the word at [`SharedSemaphore::MARK_AT`] is that of a semaphore of this kind.
    #[inline(always)]
    #[must_use]
    pub const fn is_marked(word: u64) -> bool {
        word == Self::MARK
    }

    /// A new one.
    ///
    /// # Errors
    /// As [`SharedSemaphore::init`].
    pub fn new(value: u32) -> Result<Self, Errno> {
        let zero = || AtomicU64::new(0);
        let semaphore = Self { word: zero(), unused: [zero(), zero()], mark: zero() };
        semaphore.init(value).map(|()| semaphore)
    }

    /// sem_init(3), whatever lies there.
    ///
    /// # Errors
    /// EINVAL when the value is above [`SEM_VALUE_MAX`].
    pub fn init(&self, value: u32) -> Result<(), Errno> {
        if value > SEM_VALUE_MAX {
            return Err(Errno::INVAL);
        }
        self.word.store(value.into(), Ordering::Relaxed);
        for word in &self.unused {
            word.store(0, Ordering::Relaxed);
        }
        self.mark.store(Self::MARK, Ordering::Release);
        Ok(())
    }

    /// sem_destroy(3).
    pub fn destroy(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// sem_getvalue(3).
    #[must_use]
    pub fn value(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) & VALUE) as u32
    }

    /// sem_trywait(3).
    ///
    /// # Errors
    /// EAGAIN when the value is zero.
    #[inline]
    pub fn try_wait(&self) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & VALUE != 0 {
            let order = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word - 1, order.0, order.1) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
        Err(Errno::AGAIN)
    }

    /// sem_wait(3), and with a deadline sem_timedwait(3) and sem_clockwait.
    ///
    /// # Errors
    /// EINTR when `futex` says that the wait was interrupted, ETIMEDOUT; EIO when the pool is
    /// damaged.
    #[inline]
    pub fn wait(&self, futex: &dyn Futex, deadline: Option<Deadline>) -> Result<(), Errno> {
        if self.try_wait().is_ok() { Ok(()) } else { self.wait_slow(futex, deadline) }
    }

    #[cold]
    #[inline(never)]
    fn wait_slow(&self, futex: &dyn Futex, deadline: Option<Deadline>) -> Result<(), Errno> {
        if self.word.load(Ordering::Relaxed) < WAITER {
            futex.spin(1, &mut || self.word.load(Ordering::Relaxed) & VALUE == 0);
            if self.try_wait().is_ok() {
                return Ok(());
            }
        }
        self.word.fetch_add(WAITER, Ordering::SeqCst);
        crash_point("semaphore", "announced");
        loop {
            if self.leave_with_one() {
                return Ok(());
            }
            let mut waits = || self.word.load(Ordering::SeqCst) & VALUE == 0;
            let errno = match futex.wait(&self.word, &mut waits, deadline) {
                Ok(WaitEnd::Woken { .. } | WaitEnd::Changed) => continue,
                Ok(WaitEnd::TimedOut) => Errno::TIMEDOUT,
                Ok(WaitEnd::Interrupted) => Errno::INTR,
                Err(errno) => {
                    self.word.fetch_sub(WAITER, Ordering::Relaxed);
                    return Err(errno);
                }
            };
            return self.leave(errno);
        }
    }

    /// Takes one from the value, and this thread off the count of waiters.
    fn leave_with_one(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & VALUE != 0 {
            let left = word.wrapping_sub(WAITER + 1);
            let order = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, left, order.0, order.1) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes this thread off the count of waiters, with one from the value if there is one by now:
    /// the post that raised it may have woken this thread.
    fn leave(&self, errno: Errno) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let taken = u64::from(word & VALUE != 0);
            let left = word.wrapping_sub(WAITER + taken);
            let order = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, left, order.0, order.1) {
                Ok(_) if taken == 1 => return Ok(()),
                Ok(_) => return Err(errno),
                Err(now) => word = now,
            }
        }
    }

    /// sem_post(3). Touches the semaphore no more once a thread can take what was posted: that
    /// thread may destroy it.
    ///
    /// # Errors
    /// EOVERFLOW at [`SEM_VALUE_MAX`].
    #[inline]
    pub fn post(&self, futex: &dyn Futex) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & VALUE >= SEM_VALUE_MAX.into() {
                return Err(Errno::OVERFLOW);
            }
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word + 1, order.0, order.1) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word >= WAITER {
            self.wake(futex);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, futex: &dyn Futex) {
        crash_point("semaphore", "posted");
        futex.wake(&self.word, 1);
    }
}
