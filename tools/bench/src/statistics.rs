//! Medians and spread.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::statistics::{Data, Max, Min, OrderStatistics};

/// The median of some figures, and how far they spread. Its unit is that of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are below.
    pub median: f64,
    /// A quarter of them are below.
    pub lower_quartile: f64,
    /// A quarter of them are above.
    pub upper_quartile: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these figures; none if there are none, or one of them is not a number.
    #[must_use]
    pub fn of(figures: &[f64]) -> Option<Self> {
        if figures.is_empty() || figures.iter().any(|figure| figure.is_nan()) {
            return None;
        }
        let mut data = Data::new(figures.to_vec());
        Some(Self {
            median: data.median(),
            lower_quartile: data.lower_quartile(),
            upper_quartile: data.upper_quartile(),
            min: data.min(),
            max: data.max(),
        })
    }
}

/// What each figure of one contender is of the figure of the other at the same pair index. Ratios
/// of neighbours in time hold where the ratio of two medians does not: when the machine is fast in
/// one half of the run and slow in the other.
#[must_use]
pub fn ratios(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

/// How likely two lists differ so much by pair index if nothing differs: Wilcoxon's signed-rank
/// test of the logarithms of the ratios, both sides, by the normal distribution (from ten pairs
/// on). One run that was disturbed counts no more than another.
#[must_use]
pub fn signed_rank_p(over: &[f64], under: &[f64]) -> Option<f64> {
    let mut logs: Vec<f64> = ratios(over, under).into_iter().map(f64::ln).collect();
    logs.retain(|log| *log != 0.0);
    if logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    logs.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    // Those that are equal share their ranks.
    let mut above = 0.0;
    let mut rank = 0.0;
    for equal in logs.chunk_by(|one, other| one.abs() == other.abs()) {
        let each = rank + (equal.len() as f64 + 1.0) / 2.0;
        above += each * equal.iter().filter(|log| **log > 0.0).count() as f64;
        rank += equal.len() as f64;
    }
    let n = logs.len() as f64;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    if deviation == 0.0 {
        return Some(1.0);
    }
    let distance = (above - n * (n + 1.0) / 4.0).abs() - 0.5;
    let normal = Normal::new(0.0, 1.0).ok()?;
    Some((2.0 * normal.sf(distance / deviation)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let three = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.median, three.min, three.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.median, one.min, one.max), (7.0, 7.0, 7.0));
        assert_eq!((one.lower_quartile, one.upper_quartile), (7.0, 7.0));
    }

    #[test]
    fn quartiles_leave_half_of_the_figures_between_them() {
        let figures: Vec<f64> = (1..=15).map(f64::from).collect();
        let spread = Spread::of(&figures).unwrap();
        assert!((spread.lower_quartile - 4.0).abs() < 0.5, "{spread:?}");
        assert!((spread.upper_quartile - 12.0).abs() < 0.5, "{spread:?}");
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn signed_ranks() {
        let over: Vec<f64> = (1..=12).map(|nth| (f64::from(nth) - 3.3).exp()).collect();
        let p = signed_rank_p(&over, &[1.0; 12]).unwrap();
        assert!((0.01..0.05).contains(&p), "{p}");
        let swapped = signed_rank_p(&[1.0; 12], &over).unwrap();
        assert!((p - swapped).abs() < 1e-9, "{p} and {swapped}");
        assert_eq!(signed_rank_p(&[2.0; 12], &[2.0; 12]), Some(1.0));
    }

    #[test]
    fn pairs_survive_a_machine_with_two_speeds() {
        // The first half ran five times as fast for both.
        let ours = [0.11, 0.11, 0.11, 0.55, 0.55];
        let rival = [0.10, 0.10, 0.50, 0.50, 0.50];
        let pairwise = Spread::of(&ratios(&ours, &rival)).unwrap();
        assert!((pairwise.median - 1.1).abs() < 1e-9);
        let of_medians = Spread::of(&ours).unwrap().median / Spread::of(&rival).unwrap().median;
        assert!(of_medians < 0.3);
    }
}
