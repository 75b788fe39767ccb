//! pthread_mutex_t.

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Deadline, Ordering};

use super::futex::{Futex, WaitEnd};
use super::owner::{LockOwner, NOT_RECOVERABLE, OWNER};
use crate::crash::crash_point;

/// A thread sleeps, or is about to.
const WAITERS: u64 = 1 << 0;
/// The owner before has died, and pthread_mutex_consistent was not called since.
const INCONSISTENT: u64 = 1 << 1;

/// In the word beside: how often it was locked again.
const COUNT: u64 = 0xffff_ffff;

/// What a process-shared mutex is (pthread_mutexattr_t).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutexKind {
    /// Its type.
    pub mutex_type: MutexType,
    /// PTHREAD_MUTEX_ROBUST.
    pub robust: bool,
}

/// Types of mutexes, by glibc's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MutexType {
    /// PTHREAD_MUTEX_NORMAL.
    Normal = 0,
    /// PTHREAD_MUTEX_RECURSIVE.
    Recursive = 1,
    /// PTHREAD_MUTEX_ERRORCHECK.
    ErrorCheck = 2,
    /// PTHREAD_MUTEX_ADAPTIVE_NP: as a normal one.
    Adaptive = 3,
}

const TYPE_BITS: u32 = 3;
const ROBUST: u32 = 16;
const SHARED: u32 = 128;
/// The kind that glibc gives a mutex that was destroyed.
const DESTROYED: u32 = u32::MAX;

/// A process-shared mutex in the memory of a pool, where glibc has its pthread_mutex_t.
#[derive(Debug)]
#[repr(C)]
pub struct SharedMutex {
    word: AtomicU64,
    /// How often the owner has locked it beyond the first time, and above that whose count this is
    /// (`count_of`): one that is not the owner's is nobody's.
    again: AtomicU64,
    kind: AtomicU32,
    more_spare: AtomicU32,
    unused: [AtomicU64; 2],
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SharedMutex>() == 40 && core::mem::offset_of!(SharedMutex, kind) == 16,
    "as pthread_mutex_t of glibc on 64 bits, with its kind"
);

impl SharedMutex {
    /// Offset of the word by which [`SharedMutex::is_marked`] tells.
    pub const KIND_AT: usize = 16;
    /// The mark in that word, where glibc has the kind of a mutex: [`SharedMutex::MARK_BITS`] of
    /// it. glibc sets none of these bits but 8 in none of its kinds, and refuses a kind with the
    /// bit 8 (EINVAL).
    pub const MARK: u32 = 0x5653_0008;
    /// See [`SharedMutex::MARK`].
    pub const MARK_BITS: u32 = 0xffff_ff6c;

    /// Whether the word at [`SharedMutex::KIND_AT`] is that of a mutex of this kind.
    #[inline(always)]
    #[must_use]
    pub const fn is_marked(kind: u32) -> bool {
        kind & Self::MARK_BITS == Self::MARK
    }

    /// A new one.
    #[must_use]
    pub fn new(kind: MutexKind) -> Self {
        let zero = || AtomicU64::new(0);
        let small = || AtomicU32::new(0);
        let mutex = Self {
            word: zero(),
            again: zero(),
            kind: small(),
            more_spare: small(),
            unused: [zero(), zero()],
        };
        mutex.init(kind);
        mutex
    }

    /// pthread_mutex_init(3), whatever lies there.
    pub fn init(&self, kind: MutexKind) {
        self.word.store(0, Ordering::Relaxed);
        self.again.store(0, Ordering::Relaxed);
        self.more_spare.store(0, Ordering::Relaxed);
        for word in &self.unused {
            word.store(0, Ordering::Relaxed);
        }
        let robust = if kind.robust { ROBUST } else { 0 };
        let word = Self::MARK | SHARED | robust | kind.mutex_type as u32;
        self.kind.store(word, Ordering::Release);
    }

    /// pthread_mutex_destroy(3).
    ///
    /// # Errors
    /// EBUSY when it is locked, unless it is robust.
    pub fn destroy(&self) -> Result<(), Errno> {
        if !self.is_robust() && self.word.load(Ordering::Relaxed) & OWNER != 0 {
            return Err(Errno::BUSY);
        }
        self.forget();
        Ok(())
    }

    /// It is none any more, also while a thread holds it.
    pub fn forget(&self) {
        self.kind.store(DESTROYED, Ordering::Relaxed);
    }

    /// Whether it is robust: then the calling thread notes that it holds it, and calls
    /// [`SharedMutex::abandon`] when it ends before it has unlocked it.
    #[inline]
    #[must_use]
    pub fn is_robust(&self) -> bool {
        self.kind.load(Ordering::Relaxed) & ROBUST != 0
    }

    #[inline]
    fn has_type(&self, mutex_type: MutexType) -> bool {
        self.kind.load(Ordering::Relaxed) & TYPE_BITS == mutex_type as u32
    }

    /// pthread_mutex_lock(3), and with a deadline pthread_mutex_timedlock(3) and clocklock.
    ///
    /// # Errors
    /// EDEADLK, EAGAIN (locked too often), ETIMEDOUT, ENOTRECOVERABLE; EOWNERDEAD, and then it is
    /// locked. EIO when the pool is damaged.
    #[inline]
    pub fn lock(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        if self.word.compare_exchange(0, me.word(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        self.lock_slow(me, futex, deadline)
    }

    /// pthread_mutex_trylock(3).
    ///
    /// # Errors
    /// EBUSY, EDEADLK (a robust one that tells of errors), EAGAIN, ENOTRECOVERABLE; EOWNERDEAD, and
    /// then it is locked.
    #[inline]
    pub fn try_lock(&self, me: LockOwner, futex: &dyn Futex) -> Result<(), Errno> {
        if self.word.compare_exchange(0, me.word(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        self.try_lock_slow(me, futex)
    }

    #[cold]
    #[inline(never)]
    fn try_lock_slow(&self, me: LockOwner, futex: &dyn Futex) -> Result<(), Errno> {
        match self.lock_again(me) {
            // As glibc: two kinds, two answers.
            Some(Err(Errno::DEADLK)) if !self.is_robust() => return Err(Errno::BUSY),
            Some(result) => return result,
            None => {}
        }
        loop {
            let word = self.word.load(Ordering::Relaxed);
            match self.take(word, me, 0, futex) {
                Taking::Ended(result) => return result,
                Taking::Held => return Err(Errno::BUSY),
                Taking::Changed => {}
            }
        }
    }

    /// What comes of locking a mutex that the calling thread may hold already; `None` when it does
    /// not, or waits for itself.
    fn lock_again(&self, me: LockOwner) -> Option<Result<(), Errno>> {
        loop {
            // Before the look at the owner: what is read is of a time when that was `me`.
            let again = self.again.load(Ordering::Acquire);
            if LockOwner::of(self.word.load(Ordering::Relaxed)) != Some(me) {
                return None;
            }
            if self.has_type(MutexType::ErrorCheck) {
                return Some(Err(Errno::DEADLK));
            }
            if !self.has_type(MutexType::Recursive) {
                return None;
            }
            let count = Self::count_of(again, me);
            if count == u64::from(u32::MAX) - 1 {
                return Some(Err(Errno::AGAIN));
            }
            // Only the owner changes it, but for one that was stopped here, and whose client others
            // have ended: that one changes no count that the next owner has begun.
            let new = Self::tag_of(me) | (count + 1);
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            if self.again.compare_exchange(again, new, order.0, order.1).is_ok() {
                return Some(Ok(()));
            }
        }
    }

    /// Whose count it is, in the upper half.
    const fn tag_of(me: LockOwner) -> u64 {
        (me.word() ^ me.word() << 32) & !COUNT
    }

    /// How often `me` has locked it beyond the first time.
    const fn count_of(again: u64, me: LockOwner) -> u64 {
        if again & !COUNT == Self::tag_of(me) { again & COUNT } else { 0 }
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        if let Some(result) = self.lock_again(me) {
            return result;
        }
        let seen = self.word.load(Ordering::Relaxed);
        // Since the caller's look it may have been unlocked: a free one is taken, not waited for.
        if LockOwner::of(seen).is_some() && seen & WAITERS == 0 {
            futex.spin(1, &mut || self.word.load(Ordering::Relaxed) == seen);
        }
        // What this thread was left with: others sleep, and the word does not say so.
        let mut waiters = 0;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            match self.take(word, me, waiters, futex) {
                Taking::Ended(result) => return result,
                Taking::Changed => continue,
                Taking::Held => {}
            }
            let announced = word | WAITERS;
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            if word != announced
                && self.word.compare_exchange(word, announced, order.0, order.1).is_err()
            {
                continue;
            }
            let mut waits =
                || self.word.load(Ordering::SeqCst) == announced && !self.is_abandoned(word, futex);
            crash_point("mutex", "announced");
            waiters = match futex.wait(&self.word, &mut waits, deadline)? {
                WaitEnd::TimedOut => return Err(Errno::TIMEDOUT),
                WaitEnd::Woken { more: true } => WAITERS,
                WaitEnd::Woken { more: false } | WaitEnd::Changed | WaitEnd::Interrupted => 0,
            };
        }
    }

    /// Whether its owner has ended, and it can be had from it.
    pub(super) fn has_lost_owner(&self, futex: &dyn Futex) -> bool {
        self.is_abandoned(self.word.load(Ordering::SeqCst), futex)
    }

    /// Whether the owner that `word` names has ended, and the mutex can be had from it.
    fn is_abandoned(&self, word: u64, futex: &dyn Futex) -> bool {
        self.is_robust() && LockOwner::of(word).is_some_and(|owner| futex.has_ended(owner))
    }

    /// Takes the mutex that holds `word`, if it is free or its owner has ended.
    fn take(&self, word: u64, me: LockOwner, waiters: u64, futex: &dyn Futex) -> Taking {
        if word & OWNER == NOT_RECOVERABLE {
            return Taking::Ended(Err(Errno::NOTRECOVERABLE));
        }
        let mut new = me.word() | word & !OWNER | waiters;
        if word & OWNER != 0 {
            if !self.is_abandoned(word, futex) {
                return Taking::Held;
            }
            new |= INCONSISTENT;
        }
        // Before it is taken: what is read is the dead owner's count.
        let again = self.again.load(Ordering::Acquire);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if self.word.compare_exchange(word, new, order.0, order.1).is_err() {
            return Taking::Changed;
        }
        crash_point("mutex", "taken");
        if new & INCONSISTENT == 0 {
            return Taking::Ended(Ok(()));
        }
        // Never a plain store: this thread may have been stopped here, its client ended as well,
        // and the count may be that of the owner after it.
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.again.compare_exchange(again, 0, order.0, order.1);
        Taking::Ended(Err(Errno::OWNERDEAD))
    }

    /// pthread_mutex_unlock(3).
    ///
    /// # Errors
    /// EPERM when the calling thread does not hold it, unless it is a normal one that is not
    /// robust.
    #[inline]
    pub fn unlock(&self, me: LockOwner, futex: &dyn Futex) -> Result<(), Errno> {
        let kind = self.kind.load(Ordering::Relaxed) & (TYPE_BITS | ROBUST);
        if kind != MutexType::Normal as u32 && kind != MutexType::Adaptive as u32 {
            return self.unlock_own(me, futex);
        }
        let before = self.word.swap(0, Ordering::Release);
        if before & WAITERS != 0 {
            self.wake(0, futex);
        }
        Ok(())
    }

    /// Unlocks it if `me` is the owner.
    #[inline]
    fn unlock_own(&self, me: LockOwner, futex: &dyn Futex) -> Result<(), Errno> {
        let again = self.again.load(Ordering::Relaxed);
        if Self::count_of(again, me) != 0 {
            return self.unlock_less(me, again);
        }
        let unlocked = |word| if word & INCONSISTENT == 0 { 0 } else { NOT_RECOVERABLE };
        if let Some(word) = self.change_own(me, unlocked)? {
            self.wake(word, futex);
        }
        Ok(())
    }

    #[cold]
    fn unlock_less(&self, me: LockOwner, again: u64) -> Result<(), Errno> {
        if LockOwner::of(self.word.load(Ordering::Relaxed)) != Some(me) {
            return Err(Errno::PERM);
        }
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let lessened = self.again.compare_exchange(again, again - 1, order.0, order.1);
        lessened.map(drop).map_err(|_| Errno::PERM)
    }

    /// Changes the word to what `change` makes of it, while it names `me` as the owner: never by a
    /// look first and a swap after that. In between this thread may have been stopped, its client
    /// ended by others, and the mutex another thread's. Returns the new word if threads are to be
    /// woken: they sleep, and it does not say so any more.
    #[inline]
    fn change_own(&self, me: LockOwner, change: impl Fn(u64) -> u64) -> Result<Option<u64>, Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        let new = loop {
            if word & OWNER != me.word() {
                return Err(Errno::PERM);
            }
            let new = change(word);
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, new, order.0, order.1) {
                Ok(_) => break new,
                // A thread has said meanwhile that it sleeps; or another is the owner.
                Err(now) => word = now,
            }
        };
        Ok((word & !new & WAITERS != 0).then_some(new))
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, word: u64, futex: &dyn Futex) {
        crash_point("mutex", "released");
        futex.wake(&self.word, if word == NOT_RECOVERABLE { u32::MAX } else { 1 });
    }

    /// pthread_mutex_consistent(3).
    ///
    /// # Errors
    /// EINVAL when it is not robust, or not inconsistent, or another thread's.
    pub fn make_consistent(&self, me: LockOwner) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        while self.is_robust() && word & INCONSISTENT != 0 && word & OWNER == me.word() {
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word & !INCONSISTENT, order.0, order.1) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
        Err(Errno::INVAL)
    }

    /// To be called for each robust mutex that a thread holds when it ends and its process goes on:
    /// the next thread that locks it gets EOWNERDEAD. Where a word is returned, the caller is to
    /// wake one of the threads that sleep at it.
    #[must_use]
    pub fn abandon(&self, me: LockOwner) -> Option<&AtomicU64> {
        // Another thread's by now: nothing to do.
        self.change_own(me, |_| INCONSISTENT).ok()??;
        crash_point("mutex", "abandoned");
        Some(&self.word)
    }
}

/// What came of an attempt to take a mutex.
enum Taking {
    /// It is decided.
    Ended(Result<(), Errno>),
    /// Another thread holds it.
    Held,
    /// The word has changed meanwhile.
    Changed,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use vshmem_wire::ClientId;

    use super::*;
    use crate::process_shared::{WaitEnd, Woke};

    /// A thread that does not wait for anything.
    struct NeverWaits;

    impl Futex for NeverWaits {
        fn spin(&self, _: u32, _: &mut dyn FnMut() -> bool) -> bool {
            panic!("it spins");
        }

        fn wait(
            &self,
            _: &AtomicU64,
            _: &mut dyn FnMut() -> bool,
            _: Option<Deadline>,
        ) -> Result<WaitEnd, Errno> {
            panic!("it sleeps");
        }

        fn wake(&self, _: &AtomicU64, _: u32) -> Woke {
            Woke::default()
        }

        fn has_ended(&self, _: LockOwner) -> bool {
            false
        }
    }

    /// The first look has found another owner, who has unlocked it before the second.
    #[test]
    fn a_mutex_that_has_become_free_is_taken_at_once() {
        let me = LockOwner::new(ClientId::new(1, 1), 1).unwrap();
        for robust in [false, true] {
            let mutex = SharedMutex::new(MutexKind { mutex_type: MutexType::Normal, robust });
            assert_eq!(mutex.lock_slow(me, &NeverWaits, None), Ok(()));
            assert_eq!(mutex.unlock(me, &NeverWaits), Ok(()));
        }
    }

    #[test]
    fn a_mutex_that_cannot_be_recovered_is_not_waited_for() {
        let me = LockOwner::new(ClientId::new(1, 1), 1).unwrap();
        let kind = MutexKind { mutex_type: MutexType::Normal, robust: true };
        let mutex = SharedMutex::new(kind);
        mutex.word.store(NOT_RECOVERABLE, Ordering::Relaxed);
        assert_eq!(mutex.lock(me, &NeverWaits, None), Err(Errno::NOTRECOVERABLE));
    }
}
