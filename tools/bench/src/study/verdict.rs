//! What may be concluded from two lists of figures, by rule.
//!
//! The figure is the ratio of the medians. From [`BOOTSTRAP_FROM`] pairs on its interval is the
//! percentile bootstrap over pairs; with fewer, for which that interval is too narrow, it is
//! Student's of the logarithms of the ratios within pairs. Where the interval reaches across 1, no
//! difference is shown: which is not the same as no difference.

use serde::{Deserialize, Serialize};

use super::case::Better;
use super::t_distribution;
use crate::bootstrap::{self, Interval};

/// Pairs from which on the bootstrap holds what it says.
pub const BOOTSTRAP_FROM: usize = 9;
/// Pairs that a verdict needs.
const FEWEST: usize = 3;

/// What is concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The first is faster.
    Faster,
    /// The first is slower.
    Slower,
    /// The interval reaches across 1.
    NoDifferenceShown,
    /// There are too few pairs, or figures that have no ratio.
    TooFew,
    /// One of the sides is emulated: its speed says nothing.
    Emulated,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no difference shown",
            Self::TooFew => "undecided",
            Self::Emulated => "emulated: no conclusion",
        }
    }
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Of the medians.
    pub ratio: f64,
    /// That holds it in 95 of 100 measurements; none of too few pairs.
    pub interval: Option<Interval>,
    /// How many pairs.
    pub pairs: usize,
    /// What follows.
    pub verdict: Verdict,
}

impl Ratio {
    /// Of lists that go by pair index, `over` divided by `under`. The same seed gives the same
    /// interval.
    #[must_use]
    pub fn of(over: &[f64], under: &[f64], better: Better, seed: u64) -> Option<Self> {
        let pairs = over.len().min(under.len());
        let (over, under) = (&over[..pairs], &under[..pairs]);
        let ratio = bootstrap::quotient(&[over], &[under])?;
        let interval = match pairs {
            BOOTSTRAP_FROM.. => bootstrap::interval(&[over], &[under], seed),
            FEWEST.. => t_distribution::paired_ratio(over, under, 0.95),
            _ => None,
        };
        let verdict = interval.map_or(Verdict::TooFew, |interval| judge(interval, better));
        Some(Self { ratio, interval, pairs, verdict })
    }

    /// The same, but that nothing may be concluded.
    #[must_use]
    pub fn emulated(self) -> Self {
        Self { verdict: Verdict::Emulated, ..self }
    }
}

/// What follows from an interval of a ratio.
pub fn judge(interval: Interval, better: Better) -> Verdict {
    match (interval, better) {
        (Interval { high, .. }, Better::Less) if high < 1.0 => Verdict::Faster,
        (Interval { low, .. }, Better::Less) if low > 1.0 => Verdict::Slower,
        (Interval { low, .. }, Better::More) if low > 1.0 => Verdict::Faster,
        (Interval { high, .. }, Better::More) if high < 1.0 => Verdict::Slower,
        _ => Verdict::NoDifferenceShown,
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn the_rule() {
        let at = |low, high| Interval { low, high };
        assert_eq!(judge(at(0.8, 0.9), Better::Less), Verdict::Faster);
        assert_eq!(judge(at(1.1, 1.2), Better::Less), Verdict::Slower);
        assert_eq!(judge(at(0.8, 0.9), Better::More), Verdict::Slower);
        assert_eq!(judge(at(1.1, 1.2), Better::More), Verdict::Faster);
        for better in [Better::Less, Better::More] {
            assert_eq!(judge(at(0.9, 1.1), better), Verdict::NoDifferenceShown);
            assert_eq!(judge(at(1.0, 1.0), better), Verdict::NoDifferenceShown);
        }
    }

    #[test]
    fn too_few_are_not_judged() {
        let two = Ratio::of(&[1.0, 1.0], &[9.0, 9.0], Better::Less, 1).unwrap();
        assert_eq!((two.verdict, two.interval), (Verdict::TooFew, None));
        assert_eq!(Ratio::of(&[], &[1.0], Better::Less, 1), None);
        assert_eq!(two.emulated().verdict, Verdict::Emulated);
    }

    /// Box and Muller.
    fn normal(rng: &mut Rng) -> f64 {
        (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// Of 10,000 comparisons of two samples of one distribution, those in which no difference is
    /// shown.
    fn blind_comparisons(pairs: usize, draw: impl Fn(&mut Rng) -> f64) -> usize {
        let mut rng = Rng::with_seed(20);
        let mut list = || (0..pairs).map(|_| draw(&mut rng)).collect::<Vec<f64>>();
        let cases: Vec<(Vec<f64>, Vec<f64>)> = (0..10_000).map(|_| (list(), list())).collect();
        let shown = |(nth, (one, other)): (usize, &(Vec<f64>, Vec<f64>))| {
            let ratio = Ratio::of(one, other, Better::Less, nth as u64).unwrap();
            ratio.verdict == Verdict::NoDifferenceShown
        };
        cases.iter().enumerate().filter(|&case| shown(case)).count()
    }

    #[test]
    fn of_one_distribution_no_difference_is_shown_in_95_of_100() {
        let even = |rng: &mut Rng| 100.0 + 5.0 * normal(rng);
        let skewed = |rng: &mut Rng| 100.0 * (0.3 * normal(rng)).exp();
        let found = [
            blind_comparisons(15, even),
            blind_comparisons(15, skewed),
            blind_comparisons(5, even),
            blind_comparisons(5, skewed),
        ];
        assert!(found.iter().all(|count| (9_300..=9_700).contains(count)), "{found:?}");
    }

    #[test]
    fn of_two_distributions_it_is_shown() {
        let mut rng = Rng::with_seed(4);
        let mut list = |middle: f64| -> Vec<f64> {
            (0..15).map(|_| middle * (1.0 + 0.02 * normal(&mut rng))).collect()
        };
        let (slow, fast) = (list(110.0), list(100.0));
        assert_eq!(Ratio::of(&fast, &slow, Better::Less, 1).unwrap().verdict, Verdict::Faster);
        assert_eq!(Ratio::of(&slow, &fast, Better::Less, 1).unwrap().verdict, Verdict::Slower);
    }
}
