//! pthread_rwlock_t.

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Deadline, Ordering};

use super::futex::{Futex, WaitEnd};
use super::owner::LockOwner;
use crate::crash::crash_point;

const READERS: u64 = 0xffff_ffff;
/// Held for writing.
const WRITER: u64 = 1 << 32;
/// A thread sleeps, or is about to. Cleared by who releases the lock and wakes all.
const WAITERS: u64 = 1 << 33;
/// One of them is a writer whom further readers let go first. Taken away by that writer when it
/// gives up, and by a reader that finds that its client has ended; both then wake all, and other
/// writers that wait set it again.
const WRITER_FIRST: u64 = 1 << 34;
/// Readers at once at most, as glibc has it.
const MOST_READERS: u64 = READERS >> 3;
const PREFER_WRITER: u32 = 1;

/// Whether a thread may not have the lock whose word it sees.
type IsHeld = fn(u64) -> bool;

fn is_held_for_writers(word: u64) -> bool {
    word & (WRITER | READERS) != 0
}

fn is_held_for_readers(word: u64) -> bool {
    word & WRITER != 0 || (word & WRITER_FIRST != 0 && word & READERS != 0)
}

/// A process-shared read-write lock in the memory of a pool, where glibc has its pthread_rwlock_t.
#[derive(Debug)]
#[repr(C)]
pub struct SharedRwLock {
    word: AtomicU64,
    /// The thread that holds it for writing.
    writer: AtomicU64,
    kind: AtomicU32,
    spare: AtomicU32,
    /// The thread that has set `WRITER_FIRST` last, or is about to.
    first_writer: AtomicU64,
    unused: AtomicU64,
    mark: AtomicU64,
    more_unused: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SharedRwLock>() == 56
        && core::mem::offset_of!(SharedRwLock, mark) == SharedRwLock::MARK_AT,
    "as pthread_rwlock_t of glibc on 64 bits"
);

impl SharedRwLock {
    /// Offset of the word by which [`SharedRwLock::is_marked`] tells.
    pub const MARK_AT: usize = 40;
    /// Stands where glibc has nothing.
    pub const MARK: u64 = 0xd6ad_766d_7277_6c6b;

    /// Whether the word at [`SharedRwLock::MARK_AT`] is that of a lock of this kind.
    #[inline(always)]
    #[must_use]
    pub const fn is_marked(word: u64) -> bool {
        word == Self::MARK
    }

    /// A new one.
    #[must_use]
    pub fn new(prefers_writers: bool) -> Self {
        let zero = || AtomicU64::new(0);
        let lock = Self {
            word: zero(),
            writer: zero(),
            kind: AtomicU32::new(0),
            spare: AtomicU32::new(0),
            first_writer: zero(),
            unused: zero(),
            mark: zero(),
            more_unused: zero(),
        };
        lock.init(prefers_writers);
        lock
    }

    /// pthread_rwlock_init(3), whatever lies there. `prefers_writers`:
    /// PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP.
    pub fn init(&self, prefers_writers: bool) {
        self.word.store(0, Ordering::Relaxed);
        self.writer.store(0, Ordering::Relaxed);
        self.kind.store(if prefers_writers { PREFER_WRITER } else { 0 }, Ordering::Relaxed);
        self.spare.store(0, Ordering::Relaxed);
        self.first_writer.store(0, Ordering::Relaxed);
        self.unused.store(0, Ordering::Relaxed);
        self.more_unused.store(0, Ordering::Relaxed);
        self.mark.store(Self::MARK, Ordering::Release);
    }

    /// pthread_rwlock_destroy(3).
    pub fn destroy(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// pthread_rwlock_rdlock(3), and with a deadline timedrdlock and clockrdlock.
    ///
    /// # Errors
    /// EDEADLK when the calling thread holds it for writing, EAGAIN when there are too many
    /// readers, ETIMEDOUT; EIO when the pool is damaged.
    #[inline]
    pub fn read(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        match self.add_reader() {
            Err(Errno::BUSY) => self.read_slow(me, futex, deadline),
            result => result,
        }
    }

    /// pthread_rwlock_tryrdlock(3).
    ///
    /// # Errors
    /// EBUSY, EAGAIN.
    #[inline]
    pub fn try_read(&self, futex: &dyn Futex) -> Result<(), Errno> {
        match self.add_reader() {
            Err(Errno::BUSY) => self.try_read_slow(futex),
            result => result,
        }
    }

    /// A reader that finds the lock taken does not wait for a writer who has ended.
    #[cold]
    #[inline(never)]
    fn try_read_slow(&self, futex: &dyn Futex) -> Result<(), Errno> {
        // Pairs with the swap that sets WRITER_FIRST, after the name of that writer.
        if !self.is_first_writer_gone(self.word.load(Ordering::Acquire), futex) {
            return Err(Errno::BUSY);
        }
        self.withdraw_first_writer(futex);
        self.add_reader()
    }

    #[inline]
    fn add_reader(&self) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        while !is_held_for_readers(word) {
            if word & READERS == MOST_READERS {
                return Err(Errno::AGAIN);
            }
            let order = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word + 1, order.0, order.1) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
        Err(Errno::BUSY)
    }

    #[cold]
    #[inline(never)]
    fn read_slow(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        self.check_not_writer(me)?;
        futex.spin(1, &mut || is_held_for_readers(self.word.load(Ordering::Relaxed)));
        loop {
            match self.add_reader() {
                Err(Errno::BUSY) => {}
                result => return result,
            }
            self.sleep(WAITERS, is_held_for_readers, futex, deadline)?;
        }
    }

    /// pthread_rwlock_wrlock(3), and with a deadline timedwrlock and clockwrlock.
    ///
    /// # Errors
    /// EDEADLK when the calling thread holds it for writing, ETIMEDOUT; EIO when the pool is
    /// damaged.
    #[inline]
    pub fn write(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        if self.try_write(me).is_ok() { Ok(()) } else { self.write_slow(me, futex, deadline) }
    }

    /// pthread_rwlock_trywrlock(3).
    ///
    /// # Errors
    /// EBUSY.
    #[inline]
    pub fn try_write(&self, me: LockOwner) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        while !is_held_for_writers(word) {
            let order = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word | WRITER, order.0, order.1) {
                Ok(_) => {
                    self.writer.store(me.word(), Ordering::Relaxed);
                    return Ok(());
                }
                Err(now) => word = now,
            }
        }
        Err(Errno::BUSY)
    }

    #[cold]
    #[inline(never)]
    fn write_slow(
        &self,
        me: LockOwner,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        self.check_not_writer(me)?;
        futex.spin(1, &mut || is_held_for_writers(self.word.load(Ordering::Relaxed)));
        let prefers_writers = self.kind.load(Ordering::Relaxed) == PREFER_WRITER;
        let waiters = if prefers_writers { WAITERS | WRITER_FIRST } else { WAITERS };
        while self.try_write(me).is_err() {
            if prefers_writers {
                self.first_writer.store(me.word(), Ordering::Relaxed);
            }
            let slept = self.sleep(waiters, is_held_for_writers, futex, deadline);
            if slept.is_err() && prefers_writers {
                self.withdraw_first_writer(futex);
            }
            slept?;
        }
        Ok(())
    }

    fn check_not_writer(&self, me: LockOwner) -> Result<(), Errno> {
        let is_writer = self.word.load(Ordering::Relaxed) & WRITER != 0
            && self.writer.load(Ordering::Relaxed) == me.word();
        if is_writer { Err(Errno::DEADLK) } else { Ok(()) }
    }

    /// Whether readers let a writer go first whose client has ended.
    fn is_first_writer_gone(&self, word: u64, futex: &dyn Futex) -> bool {
        let is_first = word & (WRITER | WRITER_FIRST) == WRITER_FIRST;
        let writer = || LockOwner::of(self.first_writer.load(Ordering::Relaxed));
        is_first && writer().is_some_and(|writer| futex.has_ended(writer))
    }

    /// No writer goes first any more, but those that say so again when they are awake.
    fn withdraw_first_writer(&self, futex: &dyn Futex) {
        let before = self.word.fetch_and(!WRITER_FIRST, Ordering::SeqCst);
        crash_point("rwlock", "withdrawn");
        if before & WRITER_FIRST != 0 {
            futex.wake(&self.word, u32::MAX);
        }
    }

    /// Sleeps until the lock is released, unless it is not held.
    fn sleep(
        &self,
        waiters: u64,
        is_held: IsHeld,
        futex: &dyn Futex,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        // Pairs with the swap that sets WRITER_FIRST, after the name of that writer.
        let word = self.word.load(Ordering::Acquire);
        if !is_held(word) {
            return Ok(());
        }
        // A writer has put its own name there.
        let is_reader = waiters & WRITER_FIRST == 0;
        if is_reader && self.is_first_writer_gone(word, futex) {
            self.withdraw_first_writer(futex);
            return Ok(());
        }
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        if self.word.compare_exchange(word, word | waiters, order.0, order.1).is_err() {
            return Ok(());
        }
        let mut waits = || {
            let word = self.word.load(Ordering::SeqCst);
            let may_go_on = || is_reader && self.is_first_writer_gone(word, futex);
            word & waiters == waiters && is_held(word) && !may_go_on()
        };
        match futex.wait(&self.word, &mut waits, deadline)? {
            WaitEnd::TimedOut => Err(Errno::TIMEDOUT),
            WaitEnd::Woken { .. } | WaitEnd::Changed | WaitEnd::Interrupted => Ok(()),
        }
    }

    /// pthread_rwlock_unlock(3).
    ///
    /// # Errors
    /// EPERM when it is not locked.
    #[inline]
    pub fn unlock(&self, futex: &dyn Futex) -> Result<(), Errno> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let released = if word & WRITER != 0 || word & READERS == 1 {
                0
            } else if word & READERS != 0 {
                word - 1
            } else {
                return Err(Errno::PERM);
            };
            if word & WRITER != 0 {
                self.writer.store(0, Ordering::Relaxed);
            }
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, released, order.0, order.1) {
                Ok(_) if released == 0 && word & WAITERS != 0 => return self.wake(futex),
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, futex: &dyn Futex) -> Result<(), Errno> {
        crash_point("rwlock", "released");
        futex.wake(&self.word, u32::MAX);
        Ok(())
    }
}
