//! Many comparisons at once: of a hundred of equal things five are outside a 95 % interval. Values
//! of p are adjusted for how many there are; what is still below the level then is concluded.

/// Benjamini and Hochberg's (1995): of those below a level, that part at most is expected to be
/// wrong. Where nothing differs at all, so often is there any.
#[must_use]
pub fn benjamini_hochberg(all: &[f64]) -> Vec<f64> {
    let order = ascending(all);
    let count = all.len() as f64;
    let mut adjusted = vec![1.0; all.len()];
    let mut least = 1.0_f64;
    for (rank, &nth) in order.iter().enumerate().rev() {
        least = least.min(all[nth] * count / (rank + 1) as f64);
        adjusted[nth] = least;
    }
    adjusted
}

/// Holm's (1979): so often is there any below a level that is wrong, whatever else differs.
#[must_use]
pub fn holm(all: &[f64]) -> Vec<f64> {
    let order = ascending(all);
    let mut adjusted = vec![1.0; all.len()];
    let mut most = 0.0_f64;
    for (rank, &nth) in order.iter().enumerate() {
        most = most.max(all[nth] * (all.len() - rank) as f64).min(1.0);
        adjusted[nth] = most;
    }
    adjusted
}

/// Their places, the smallest first.
fn ascending(all: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|one, other| all[*one].total_cmp(&all[*other]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (one, other) in found.iter().zip(expected) {
            assert!((one - other).abs() < 1e-9, "{found:?} is not {expected:?}");
        }
    }

    /// As R has it: p.adjust(c(0.01, 0.04, 0.03, 0.005), "BH") and "holm".
    #[test]
    fn values_of_r() {
        let all = [0.01, 0.04, 0.03, 0.005];
        near(&benjamini_hochberg(&all), &[0.02, 0.04, 0.04, 0.02]);
        near(&holm(&all), &[0.03, 0.06, 0.06, 0.02]);
    }

    #[test]
    fn one_is_not_changed_and_none_is_none() {
        near(&benjamini_hochberg(&[0.03]), &[0.03]);
        near(&holm(&[0.03]), &[0.03]);
        near(&benjamini_hochberg(&[]), &[]);
        near(&holm(&[0.9, 0.8]), &[1.0, 1.0]);
    }
}
