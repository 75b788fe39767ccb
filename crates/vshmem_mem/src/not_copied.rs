//! A number that a copy of this machine does not come to as well.
//!
//! A guest that is restored from a snapshot several times has the same memory in all of them, and
//! with it the state of every random generator, the kernel's too. What differs is what the CPU
//! says when it is asked.

use crate::ticks;

/// A number from what is in no snapshot: the CPU's counter and, where it has one, its own random
/// generator. Not for secrets.
#[must_use]
pub fn not_copied() -> u64 {
    let mut mixed = ticks() ^ from_cpu().rotate_left(32);
    // The finalizer of SplitMix64: each bit of the counter changes about half of all.
    for multiplier in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(multiplier);
    }
    mixed ^ (mixed >> 31)
}

/// From the CPU's random generator; 0 where there is none, or it says nothing now.
fn from_cpu() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "rdrand")]
        fn random() -> u64 {
            let mut word = 0;
            core::arch::x86_64::_rdrand64_step(&mut word);
            word
        }
        if std::arch::is_x86_feature_detected!("rdrand") {
            // SAFETY: the CPU has the instruction, as was just asked.
            return unsafe { random() };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let mut all: Vec<u64> = (0..1000).map(|_| not_copied()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1000);
    }
}
