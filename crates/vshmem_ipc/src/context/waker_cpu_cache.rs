//! Where wakers can run, as it was found lately.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was found lately: clients come and go, and masks change, but not between two waits.
#[derive(Debug, Default)]
pub(crate) struct WakerCpuCache {
    /// Whether another CPU than the waiter's, 0 or 1.
    pub another: Lately,
    /// On how many CPUs in all.
    pub count: Lately,
}

/// A number that is found anew now and then.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    /// Ticks when it was found, with the answer in the lowest bits; 0: never.
    found: AtomicU64,
}

impl Lately {
    /// What is known now; where nothing can be asked any more, what was known last.
    pub(crate) fn known(&self, now: u64, for_ever: bool) -> Option<u16> {
        let found = self.found.load(Ordering::Relaxed);
        let holds = for_ever || now.wrapping_sub(found & !ANSWER) < HOLDS;
        (found != 0 && holds).then_some((found & ANSWER) as u16)
    }

    pub(crate) fn note(&self, now: u64, answer: u16) {
        self.found.store((now & !ANSWER).max(ANSWER + 1) | u64::from(answer), Ordering::Relaxed);
    }
}

/// 16 bits: more CPUs than any machine has. The time of an answer is right to 2^16 ticks, a
/// two-thousandth of how long it holds.
const ANSWER: u64 = u16::MAX as u64;
/// How long an answer holds, in ticks; on a counter of at least 1 GHz this is at most 134 ms.
const HOLDS: u64 = 1 << 27;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_a_while() {
        let lately = Lately::default();
        assert_eq!(lately.known(5, true), None);
        let begin = 5 * (ANSWER + 1);
        lately.note(begin, 1);
        assert_eq!(lately.known(begin, false), Some(1));
        let later = begin + HOLDS;
        lately.note(later + 1, 0);
        assert_eq!(lately.known(later + HOLDS / 2, false), Some(0));
        assert_eq!(lately.known(later + HOLDS, false), None);
        assert_eq!(lately.known(later + HOLDS, true), Some(0));
        lately.note(u64::MAX, u16::MAX);
        assert_eq!(lately.known(u64::MAX, false), Some(u16::MAX));
    }
}
