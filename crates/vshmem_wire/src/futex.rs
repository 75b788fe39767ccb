//! Wait queues by address.

use crate::RawCell;

/// A wait queue of threads that sleep at addresses in data pages: of all addresses with one hash.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct FutexBucket {
    /// Its lock.
    pub lock: RawCell,
    /// First waiter, thread slot plus one.
    pub head: RawCell,
    /// Last waiter.
    pub tail: RawCell,
    /// Waiters. Read without the lock by a thread that has changed a word: none, none to wake.
    pub count: RawCell,
    /// Room for later.
    pub spare: [RawCell; 4],
}

const _: () = assert!(size_of::<FutexBucket>() == 128, "a bucket is two cache lines");

/// Which of `count` buckets an address belongs to, by its offset in the pool.
#[inline]
#[must_use]
pub const fn futex_bucket(offset: u64, count: u64) -> u32 {
    // Fibonacci hashing: neighbouring words come to lie far apart.
    let hash = (offset / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((hash * count) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_words_are_spread_over_the_buckets() {
        for count in [1, 64, 100, 1024] {
            let mut used = vec![0u32; count as usize];
            for word in 0..4 * count {
                used[futex_bucket((1 << 30) + word * 64, count) as usize] += 1;
            }
            let empty = used.iter().filter(|&&used| used == 0).count() as u64;
            assert!(empty <= count / 8 && used.iter().all(|&used| used <= 16), "{used:?}");
        }
    }
}
