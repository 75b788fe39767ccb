//! How long a waiter that spins pauses between two polls, in ticks of the CPU's counter.
//!
//! A poll that comes too soon takes the cache line away from the thread that is about to write its
//! answer there; one that comes late sees the answer late. Which of the two costs more depends on
//! what an answer writes, and on the processor. Measured, a round trip with 128 and with 192 ticks:
//!
//! | | AMD EPYC, CPUs near | far | Intel Xeon |
//! |---|---|---|---|
//! | semaphores | 450, 516 ticks | 731, 792 ticks | 329, 268 ns |
//! | a queue | 760, 738 ticks | 1650, 1480 ticks | 793, 473 ns, with other changes |
//!
//! So it is 192, but for words on AMD's processors.

use vshmem_mem::tuning::spin::{POLL_INTERVAL, POLL_INTERVAL_OF_WORD_ON_AMD};

/// What a waiter polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Polled {
    /// A word, whose change is all that the answer writes.
    Word,
    /// The ring of a queue: an answer writes more than what is polled.
    Ring,
}

/// The pauses on this processor.
#[derive(Debug)]
pub(super) struct PollIntervals {
    /// By what is polled.
    ticks: [u64; 2],
}

impl PollIntervals {
    /// Those that were measured as the better ones for this kind of processor.
    pub fn of_this_processor() -> Self {
        let mut ticks = [POLL_INTERVAL; 2];
        if is_amd() {
            ticks[Polled::Word as usize] = POLL_INTERVAL_OF_WORD_ON_AMD;
        }
        Self { ticks }
    }

    /// Ticks between two polls.
    #[inline]
    pub fn ticks(&self, polled: Polled) -> u64 {
        self.ticks[polled as usize]
    }
}

/// Whether AMD has made this processor, as it says itself.
fn is_amd() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let says = core::arch::x86_64::__cpuid(0);
        [says.ebx, says.edx, says.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        false
    }
}
