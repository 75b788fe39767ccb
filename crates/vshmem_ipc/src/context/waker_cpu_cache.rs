//! Where wakers can run, as it was found lately.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was found lately: clients come and go, and masks change, but not between two waits.
#[derive(Debug, Default)]
pub(crate) struct WakerCpuCache {
    /// Ticks when it was found, with the answer in the lowest bit; 0: never.
    found: AtomicU64,
}

impl WakerCpuCache {
    /// What is known now; where nothing can be asked any more, what was known last.
    pub(crate) fn known(&self, now: u64, for_ever: bool) -> Option<bool> {
        let found = self.found.load(Ordering::Relaxed);
        let holds = for_ever || now.wrapping_sub(found & !1) < HOLDS;
        (found != 0 && holds).then_some(found & 1 != 0)
    }

    pub(crate) fn note(&self, now: u64, answer: bool) {
        self.found.store((now & !1).max(2) | u64::from(answer), Ordering::Relaxed);
    }
}

/// How long an answer holds, in ticks; on a counter of at least 1 GHz this is at most 134 ms.
const HOLDS: u64 = 1 << 27;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_a_while() {
        let waker_cpu_cache = WakerCpuCache::default();
        assert_eq!(waker_cpu_cache.known(5, true), None);
        waker_cpu_cache.note(1000, true);
        assert_eq!(waker_cpu_cache.known(1000, false), Some(true));
        waker_cpu_cache.note(2001, false);
        assert_eq!(waker_cpu_cache.known(2001 + HOLDS / 2, false), Some(false));
        assert_eq!(waker_cpu_cache.known(2001 + HOLDS, false), None);
        assert_eq!(waker_cpu_cache.known(2001 + HOLDS, true), Some(false));
    }
}
