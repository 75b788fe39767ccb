//! How far a figure could have come out otherwise: percentile bootstrap over pair indices.

use fastrand::Rng;
use serde::Serialize;
use statrs::statistics::{Data, OrderStatistics};

/// A range that holds the true figure in 95 of 100 such measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

const RESAMPLES: usize = 2000;

/// The product of the medians of `over` divided by that of `under`; none if there is no figure in
/// one of them, or not a number.
#[must_use]
pub fn quotient(over: &[&[f64]], under: &[&[f64]]) -> Option<f64> {
    let product = |lists: &[&[f64]]| {
        lists.iter().try_fold(1.0, |product, list| Some(product * median(&mut list.to_vec())?))
    };
    let ratio = product(over)? / product(under)?;
    ratio.is_finite().then_some(ratio)
}

/// Puts the list in another order.
fn median(list: &mut [f64]) -> Option<f64> {
    let middle = list.len() / 2;
    if list.is_empty() {
        return None;
    }
    let even = list.len().is_multiple_of(2);
    let (below, &mut upper, _) = list.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = if even { below.iter().copied().max_by(f64::total_cmp)? } else { upper };
    Some(f64::midpoint(lower, upper))
}

/// The interval of [`quotient`]. The lists go by pair index, and whole pair indices are drawn, with
/// replacement: what moved all contenders of one index together, such as a machine that ran slow
/// for a second, is not counted as chance. The same `seed` gives the same interval.
#[must_use]
pub fn interval(over: &[&[f64]], under: &[&[f64]], seed: u64) -> Option<Interval> {
    let pairs = over.iter().chain(under).map(|list| list.len()).min().filter(|&pairs| pairs > 0)?;
    let mut rng = Rng::with_seed(seed);
    let mut quotients = Vec::with_capacity(RESAMPLES);
    let (mut drawn, mut picked) = (vec![0; pairs], vec![0.0; pairs]);
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| rng.usize(..pairs));
        let mut product = |lists: &[&[f64]]| {
            lists.iter().try_fold(1.0, |product, list| {
                for (place, &pair) in picked.iter_mut().zip(&drawn) {
                    *place = list[pair];
                }
                Some(product * median(&mut picked)?).filter(|one: &f64| one.is_finite())
            })
        };
        quotients.push(product(over)? / product(under)?);
    }
    let mut quotients = Data::new(quotients);
    let (low, high) = (quotients.quantile(0.025), quotients.quantile(0.975));
    (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_of_medians() {
        assert_eq!(quotient(&[&[30.0, 10.0, 20.0]], &[&[4.0, 5.0, 6.0]]), Some(4.0));
        // (random / hot of ours) / (random / hot of the rival's): (30 / 10) / (400 / 200)
        assert_eq!(quotient(&[&[30.0], &[200.0]], &[&[10.0], &[400.0]]), Some(1.5));
        assert_eq!(quotient(&[&[1.0]], &[&[]]), None);
        assert_eq!(quotient(&[&[1.0]], &[&[0.0]]), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 9.0]), Some(3.5));
    }

    #[test]
    fn figures_that_agree_leave_no_room() {
        let exact = interval(&[&[20.0; 5]], &[&[10.0; 5]], 1).unwrap();
        assert_eq!(exact, Interval { low: 2.0, high: 2.0 });
        assert_eq!(interval(&[&[]], &[&[1.0]], 1), None);
    }

    /// With three pairs a resample has 27 equally likely outcomes, and its median of {1, 2, 3} is 1
    /// in 7 of them, 2 in 13, 3 in 7: so both ends are reached by more than 2.5 %.
    #[test]
    fn three_pairs_span_everything_that_was_seen() {
        let worked = interval(&[&[1.0, 2.0, 3.0]], &[&[1.0; 3]], 7).unwrap();
        assert_eq!(worked, Interval { low: 1.0, high: 3.0 });
    }

    #[test]
    fn an_odd_pair_among_many_does_not_widen_it_much() {
        let mut rival = vec![100.0; 15];
        rival[3] = 9000.0;
        let found = interval(&[&rival], &[&[10.0; 15]], 7).unwrap();
        assert_eq!(found, Interval { low: 10.0, high: 10.0 });
    }

    #[test]
    fn what_moves_both_alike_is_not_chance() {
        let rival = [100.0, 500.0, 100.0, 500.0, 300.0];
        let ours = rival.map(|ns| ns / 10.0);
        let found = interval(&[&rival], &[&ours], 7).unwrap();
        assert!((found.low - 10.0).abs() < 1e-9 && (found.high - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let rival = [100.0, 130.0, 110.0, 170.0, 90.0];
        let ours = [10.0, 12.0, 9.0, 11.0, 14.0];
        assert_eq!(interval(&[&rival], &[&ours], 3), interval(&[&rival], &[&ours], 3));
    }
}
