//! pthread_barrier_t.

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Ordering};

use super::futex::Futex;

/// Threads that have arrived in this round.
const ARRIVED: u64 = 0xffff_ffff;
const ONE_ROUND: u64 = 1 << 32;
/// In `inside`: a thread waits for it to become empty.
const DESTROYING: u64 = 1 << 63;
/// Fewer threads than this, as glibc has it.
const MOST: u32 = i32::MAX as u32;
/// Stands where glibc has nothing.
const MARK: u64 = 0xd6ad_766d_6261_7272;

/// A process-shared barrier in the memory of a pool, where glibc has its pthread_barrier_t.
#[derive(Debug)]
#[repr(C)]
pub struct SharedBarrier {
    /// The number of the round, and how many have arrived in it.
    word: AtomicU64,
    /// Threads that are in a call of `wait`.
    inside: AtomicU64,
    count: AtomicU32,
    spare: AtomicU32,
    mark: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SharedBarrier>() == 32
        && core::mem::offset_of!(SharedBarrier, mark) == SharedBarrier::MARK_AT,
    "as pthread_barrier_t of glibc on 64 bits"
);

impl SharedBarrier {
    /// Offset of the word by which [`SharedBarrier::is_marked`] tells. glibc's
    /// pthread_barrier_init leaves it as it is: before that is called for memory that may have been
    /// one of these, [`SharedBarrier::forget`] it.
    pub const MARK_AT: usize = 24;

    /// Whether the word at [`SharedBarrier::MARK_AT`] is that of a barrier of this kind.
    #[inline(always)]
    #[must_use]
    pub const fn is_marked(word: u64) -> bool {
        word == MARK
    }

    /// A new one.
    ///
    /// # Errors
    /// As [`SharedBarrier::init`].
    pub fn new(count: u32) -> Result<Self, Errno> {
        let zero = || AtomicU64::new(0);
        let small = || AtomicU32::new(0);
        let barrier =
            Self { word: zero(), inside: zero(), count: small(), spare: small(), mark: zero() };
        barrier.init(count).map(|()| barrier)
    }

    /// pthread_barrier_init(3), whatever lies there.
    ///
    /// # Errors
    /// EINVAL when the count is zero, or 2^31 - 1 or above.
    pub fn init(&self, count: u32) -> Result<(), Errno> {
        if count == 0 || count >= MOST {
            return Err(Errno::INVAL);
        }
        self.word.store(0, Ordering::Relaxed);
        self.inside.store(0, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.spare.store(0, Ordering::Relaxed);
        self.mark.store(MARK, Ordering::Release);
        Ok(())
    }

    /// pthread_barrier_wait(3): true in one of the threads of each round
    /// (PTHREAD_BARRIER_SERIAL_THREAD).
    ///
    /// # Errors
    /// EIO when the pool is damaged.
    pub fn wait(&self, futex: &dyn Futex) -> Result<bool, Errno> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let result = self.arrive(futex);
        // Nothing here is touched after this: the barrier may be gone.
        if self.inside.fetch_sub(1, Ordering::SeqCst) == DESTROYING | 1 {
            futex.wake(&self.inside, u32::MAX);
        }
        result
    }

    fn arrive(&self, futex: &dyn Futex) -> Result<bool, Errno> {
        let count = u64::from(self.count.load(Ordering::Relaxed));
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let is_last = (seen & ARRIVED) + 1 >= count;
            let arrived =
                if is_last { (seen & !ARRIVED).wrapping_add(ONE_ROUND) } else { seen + 1 };
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            match self.word.compare_exchange_weak(seen, arrived, order.0, order.1) {
                Ok(_) if is_last => {
                    futex.wake(&self.word, u32::MAX);
                    return Ok(true);
                }
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let mut waits = || self.word.load(Ordering::SeqCst) & !ARRIVED == seen & !ARRIVED;
        let missing = count - 1 - (seen & ARRIVED);
        futex.spin(u32::try_from(missing).unwrap_or(u32::MAX), &mut waits);
        while waits() {
            futex.wait(&self.word, &mut waits, None)?;
        }
        Ok(false)
    }

    /// pthread_barrier_destroy(3): waits for the threads of the last round to have left it.
    ///
    /// # Errors
    /// EBUSY when threads wait for others to arrive; EIO when the pool is damaged.
    pub fn destroy(&self, futex: &dyn Futex) -> Result<(), Errno> {
        if self.word.load(Ordering::Acquire) & ARRIVED != 0 {
            return Err(Errno::BUSY);
        }
        while self.inside.fetch_or(DESTROYING, Ordering::SeqCst) & !DESTROYING != 0 {
            let mut waits = || self.inside.load(Ordering::SeqCst) & !DESTROYING != 0;
            futex.wait(&self.inside, &mut waits, None)?;
        }
        self.forget();
        Ok(())
    }

    /// It is none any more, also while threads wait at it.
    pub fn forget(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }
}
