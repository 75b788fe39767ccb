//! Mean, variance, and intervals by Student's distribution.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use crate::bootstrap::Interval;

/// Figures of one case, summed up. Every figure counts, however odd.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their variance, over n - 1; 0 of a single figure.
    pub variance: f64,
}

impl Moments {
    /// Of these figures; none if there are none or one is no number.
    #[must_use]
    pub fn of(figures: &[f64]) -> Option<Self> {
        if figures.is_empty() || figures.iter().any(|figure| !figure.is_finite()) {
            return None;
        }
        let variance = if figures.len() > 1 { figures.variance() } else { 0.0 };
        Some(Self { n: figures.len(), mean: figures.mean(), variance })
    }

    /// The interval that holds the true mean in so many of 100 cases (0.95: 95); none of a single
    /// figure.
    #[must_use]
    pub fn interval(&self, level: f64) -> Option<Interval> {
        let half = quantile(self.n.checked_sub(1)? as f64, level)?
            * (self.variance / self.n as f64).sqrt();
        Some(Interval { low: self.mean - half, high: self.mean + half })
    }
}

/// The interval of the difference of two means whose variances need not be alike (Welch).
#[must_use]
pub fn difference(one: &Moments, other: &Moments, level: f64) -> Option<Interval> {
    let (mean, error, freedom) = welch(one, other)?;
    let half = if error == 0.0 { 0.0 } else { quantile(freedom, level)? * error };
    Some(Interval { low: mean - half, high: mean + half })
}

/// The difference, its standard error, and the degrees of freedom of that.
fn welch(one: &Moments, other: &Moments) -> Option<(f64, f64, f64)> {
    if one.n < 2 || other.n < 2 {
        return None;
    }
    let parts = [one, other].map(|moments| moments.variance / moments.n as f64);
    let sum = parts[0] + parts[1];
    let weights = parts[0].powi(2) / (one.n - 1) as f64 + parts[1].powi(2) / (other.n - 1) as f64;
    Some((one.mean - other.mean, sum.sqrt(), sum * sum / weights))
}

/// How likely a mean is at least so many standard errors from nothing, if it is nothing.
fn two_sided(mean: f64, error: f64, freedom: f64) -> Option<f64> {
    if error == 0.0 {
        return Some(if mean == 0.0 { 1.0 } else { 0.0 });
    }
    let t_distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * t_distribution.sf((mean / error).abs()))
}

/// The interval of the ratio of two lists by pair index: that of the mean of the logarithms of the
/// ratios.
#[must_use]
pub fn paired_ratio(over: &[f64], under: &[f64], level: f64) -> Option<Interval> {
    let logs: Vec<f64> = over.iter().zip(under).map(|(over, under)| (over / under).ln()).collect();
    let interval = Moments::of(&logs)?.interval(level)?;
    Some(Interval { low: interval.low.exp(), high: interval.high.exp() })
}

/// How likely the ratios of two lists are at least as far from 1, by pair index, if nothing
/// differs: Student's test of the logarithms of the ratios, both sides.
#[must_use]
pub fn paired_p(over: &[f64], under: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = over.iter().zip(under).map(|(over, under)| (over / under).ln()).collect();
    let moments = Moments::of(&logs)?;
    let freedom = moments.n.checked_sub(1).filter(|&freedom| freedom > 0)?;
    two_sided(moments.mean, (moments.variance / moments.n as f64).sqrt(), freedom as f64)
}

/// The same of lists that have nothing to do with each other: Welch's test.
#[must_use]
pub fn unpaired_p(over: &[f64], under: &[f64]) -> Option<f64> {
    let logs = |list: &[f64]| Moments::of(&list.iter().map(|one| one.ln()).collect::<Vec<f64>>());
    let (mean, error, freedom) = welch(&logs(over)?, &logs(under)?)?;
    two_sided(mean, error, freedom)
}

/// The interval of the ratio of two lists that have nothing to do with each other: Welch's, of
/// their logarithms.
#[must_use]
pub fn unpaired_ratio(over: &[f64], under: &[f64], level: f64) -> Option<Interval> {
    let logs = |list: &[f64]| Moments::of(&list.iter().map(|one| one.ln()).collect::<Vec<f64>>());
    let interval = difference(&logs(over)?, &logs(under)?, level)?;
    Some(Interval { low: interval.low.exp(), high: interval.high.exp() })
}

/// How many standard errors that share of Student's distribution reaches to both sides.
fn quantile(freedom: f64, level: f64) -> Option<f64> {
    let t_distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t_distribution.inverse_cdf(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} is not {expected}");
    }

    /// Any textbook's table of Student's distribution.
    #[test]
    fn quantiles_of_the_table() {
        for (freedom, level, expected) in [
            (1.0, 0.95, 12.706),
            (4.0, 0.95, 2.776),
            (9.0, 0.95, 2.262),
            (14.0, 0.95, 2.145),
            (30.0, 0.95, 2.042),
            (9.0, 0.99, 3.250),
            (4.0, 0.90, 2.132),
        ] {
            near(quantile(freedom, level).unwrap(), expected, 5e-4);
        }
        // Of 97 %: the quantile 0.985.
        near(quantile(9.0, 0.97).unwrap(), 2.574, 1e-3);
        near(quantile(1e6, 0.97).unwrap(), 2.1701, 1e-3);
    }

    /// Student's own example of 1908: additional hours of sleep by two drugs, ten patients (Cushny
    /// and Peebles).
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    #[test]
    fn hours_of_sleep() {
        let (first, second) = (Moments::of(&FIRST).unwrap(), Moments::of(&SECOND).unwrap());
        near(first.mean, 0.75, 1e-12);
        near(second.mean, 2.33, 1e-12);
        near(first.variance, 3.200_556, 1e-6);
        near(second.variance, 4.009, 1e-6);
        // As R has it: t.test(extra ~ group, data = sleep), Welch.
        let welch = difference(&first, &second, 0.95).unwrap();
        near(welch.low, -3.365_483, 1e-5);
        near(welch.high, 0.205_483, 1e-5);
        // And paired: t.test(first - second).
        let pairs: Vec<f64> = FIRST.iter().zip(SECOND).map(|(one, other)| one - other).collect();
        let paired = Moments::of(&pairs).unwrap().interval(0.95).unwrap();
        near(paired.low, -2.459_886, 1e-5);
        near(paired.high, -0.700_114, 1e-5);
    }

    /// The value of p is the level at which the interval touches 1.
    #[test]
    fn values_of_p() {
        let (over, under) = ([2.0, 3.0, 4.0, 5.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0]);
        let p = paired_p(&over, &under).unwrap();
        let interval = |level| paired_ratio(&over, &under, level).unwrap();
        assert!(interval(1.0 - p * 1.01).low > 1.0 && interval(1.0 - p * 0.99).low < 1.0, "{p}");
        assert_eq!(paired_p(&over, &over), Some(1.0));
        assert_eq!(paired_p(&[1.0], &[2.0]), None);
    }

    #[test]
    fn a_wider_level_is_a_wider_interval() {
        let moments = Moments::of(&FIRST).unwrap();
        let (narrow, wide) = (moments.interval(0.95).unwrap(), moments.interval(0.97).unwrap());
        assert!(wide.low < narrow.low && narrow.high < wide.high);
    }

    #[test]
    fn too_few_have_no_interval() {
        assert_eq!(Moments::of(&[]), None);
        assert_eq!(Moments::of(&[1.0, f64::NAN]), None);
        let one = Moments::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.variance, one.interval(0.95)), (3.0, 0.0, None));
        assert_eq!(difference(&one, &one, 0.95), None);
    }

    #[test]
    fn a_ratio_goes_by_pairs() {
        let found = paired_ratio(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0], 0.95).unwrap();
        near(found.low, 2.0, 1e-9);
        near(found.high, 2.0, 1e-9);
    }
}
