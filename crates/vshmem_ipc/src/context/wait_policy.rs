//! What a thread that has to wait does first.

use std::ffi::OsStr;

/// Whether threads that wait may spin before they sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// They spin, for about as long as a sleep costs.
    SpinFirst,
    /// They sleep at once.
    SleepAtOnce,
}

impl Default for WaitPolicy {
    /// Where a fuzzer plays, no thread waits for another.
    fn default() -> Self {
        if cfg!(fuzzing) { Self::SleepAtOnce } else { Self::SpinFirst }
    }
}

impl WaitPolicy {
    /// What the value of the environment's `VSHMEM_SPIN` asks for: `0` forbids to spin.
    #[must_use]
    pub fn of_word(word: Option<&OsStr>) -> Self {
        if word.is_some_and(|word| word == "0") { Self::SleepAtOnce } else { Self::SpinFirst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_alone_forbids_to_spin() {
        let of = |word: &str| WaitPolicy::of_word(Some(OsStr::new(word)));
        assert_eq!(of("0"), WaitPolicy::SleepAtOnce);
        for word in ["", "1", "00", "no"] {
            assert_eq!(of(word), WaitPolicy::SpinFirst, "{word}");
        }
        assert_eq!(WaitPolicy::of_word(None), WaitPolicy::SpinFirst);
    }
}
