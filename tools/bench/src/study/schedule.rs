//! The order of runs: every case once in each repetition, in random order.

use fastrand::Rng;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// From 1. Runs of one repetition are neighbours in time: ratios are made within it.
    pub repetition: u32,
    /// Index of the case.
    pub case: usize,
}

/// All turns, in their order; the same for the same seed, so that a run that was interrupted
/// continues with it.
#[must_use]
pub fn turns(cases: usize, repetitions: u32, seed: u64) -> Vec<Turn> {
    let mut rng = Rng::with_seed(seed);
    let mut turns = Vec::with_capacity(cases * repetitions as usize);
    for repetition in 1..=repetitions {
        let mut order: Vec<usize> = (0..cases).collect();
        rng.shuffle(&mut order);
        turns.extend(order.into_iter().map(|case| Turn { repetition, case }));
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_once_in_each_repetition() {
        let all = turns(7, 3, 1);
        for repetition in 1..=3 {
            let mut cases: Vec<usize> = all
                .iter()
                .filter(|turn| turn.repetition == repetition)
                .map(|turn| turn.case)
                .collect();
            cases.sort_unstable();
            assert_eq!(cases, (0..7).collect::<Vec<_>>());
        }
        assert!(all.is_sorted_by_key(|turn| turn.repetition), "whole repetitions after each other");
    }

    #[test]
    fn the_seed_is_the_order() {
        assert_eq!(turns(20, 4, 9), turns(20, 4, 9));
        assert_ne!(turns(20, 4, 9), turns(20, 4, 10));
        let order = |repetition| {
            let all = turns(20, 4, 9);
            let of = all.into_iter().filter(move |turn| turn.repetition == repetition);
            of.map(|turn| turn.case).collect::<Vec<_>>()
        };
        assert_ne!(order(1), order(2), "no repetition is like another");
    }
}
