//! What may be concluded from two lists of figures, by rule.
//!
//! The figure is the ratio of the medians. From [`BOOTSTRAP_FROM`] pairs on its interval is the
//! percentile bootstrap over pairs; with fewer, for which that interval is too narrow, it is
//! Student's of the logarithms of the ratios within pairs. Where the interval reaches across 1, no
//! difference is shown: which is not the same as no difference.

use serde::{Deserialize, Serialize};

use super::case::Better;
use super::{plausible, t_distribution};
use crate::bootstrap::{self, Interval};

/// Pairs from which on the bootstrap holds what it says.
pub const BOOTSTRAP_FROM: usize = 9;
/// Pairs that a verdict needs.
const FEWEST: usize = 3;
/// Of errors, after correction.
pub const LEVEL: f64 = 0.05;

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
    /// The interval does not reach across 1, but among as many comparisons as there are that is
    /// to be expected.
    NotAfterCorrection,
    /// There are too few pairs, or figures that have no ratio.
    TooFew,
    /// A figure that cannot be one.
    NotMeasured,
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
            Self::NotAfterCorrection => "no difference shown after correction",
            Self::TooFew => "undecided",
            Self::NotMeasured => "not measured",
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
    /// How likely a ratio is at least as far from 1 if nothing differs.
    pub p: Option<f64>,
    /// The same, adjusted for how many comparisons there are.
    pub adjusted_p: Option<f64>,
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
        let p = t_distribution::paired_p(over, under).filter(|_| interval.is_some());
        let whole = Self { ratio, interval, pairs, p, adjusted_p: None, verdict };
        Some(if plausible::is_ratio(ratio) { whole } else { whole.not_measured() })
    }

    /// How many times as fast the first is as the second, from lists of costs or rates by pair
    /// index: above 1 the first is faster.
    #[must_use]
    pub fn of_speeds(first: &[f64], second: &[f64], better: Better, seed: u64) -> Option<Self> {
        match better {
            Better::Less => Self::of(second, first, Better::More, seed),
            Better::More => Self::of(first, second, Better::More, seed),
        }
    }

    fn not_measured(self) -> Self {
        Self { interval: None, p: None, verdict: Verdict::NotMeasured, ..self }
    }

    /// Whether it says that something differs.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        matches!(self.verdict, Verdict::Faster | Verdict::Slower)
    }

    /// The same, but that nothing may be concluded.
    #[must_use]
    pub fn emulated(self) -> Self {
        Self { verdict: Verdict::Emulated, ..self }
    }
}

/// Adjusts values of p that belong together. What differs by its own interval, and not by the
/// adjusted value at 5 %, is no difference after correction.
pub fn correct(ratios: &mut [&mut Ratio], adjust: fn(&[f64]) -> Vec<f64>) {
    let mut told: Vec<&mut &mut Ratio> = ratios
        .iter_mut()
        .filter(|ratio| ratio.p.is_some() && ratio.verdict != Verdict::Emulated)
        .collect();
    let adjusted = adjust(&told.iter().filter_map(|ratio| ratio.p).collect::<Vec<f64>>());
    for (ratio, adjusted) in told.iter_mut().zip(adjusted) {
        ratio.adjusted_p = Some(adjusted);
        if ratio.is_decided() && adjusted >= LEVEL {
            ratio.verdict = Verdict::NotAfterCorrection;
        }
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
    use crate::study::multiplicity;

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

    /// Forty comparisons of equal things at a time, as in one small study: in how many of 400 such
    /// studies there is any verdict.
    #[test]
    fn of_equal_things_one_study_in_twenty_has_any_verdict_after_correction() {
        let mut rng = Rng::with_seed(8);
        let mut list = || (0..5).map(|_| 100.0 + 5.0 * normal(&mut rng)).collect::<Vec<f64>>();
        let mut wrong = 0;
        for _ in 0..400 {
            let mut all: Vec<Ratio> = (0..40)
                .map(|_| Ratio::of_speeds(&list(), &list(), Better::Less, 1).unwrap())
                .collect();
            correct(&mut all.iter_mut().collect::<Vec<_>>(), multiplicity::benjamini_hochberg);
            wrong += u32::from(all.iter().any(Ratio::is_decided));
        }
        assert!((8..=32).contains(&wrong), "{wrong} of 400");
    }

    #[test]
    fn a_speed_above_one_is_good_for_the_first() {
        let (fast, slow) = ([1.0; 3], [3.0; 3]);
        let costs = Ratio::of_speeds(&fast, &slow, Better::Less, 1).unwrap();
        assert_eq!((costs.ratio, costs.verdict), (3.0, Verdict::Faster));
        let rates = Ratio::of_speeds(&fast, &slow, Better::More, 1).unwrap();
        assert!(rates.ratio < 0.34 && rates.verdict == Verdict::Slower);
        let absurd = Ratio::of_speeds(&[1e-9; 3], &slow, Better::Less, 1).unwrap();
        assert_eq!((absurd.verdict, absurd.interval), (Verdict::NotMeasured, None));
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
