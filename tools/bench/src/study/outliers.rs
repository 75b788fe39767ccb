//! Outliers. They are marked, and kept.

use statrs::statistics::{Data, OrderStatistics};

/// Tukey's fences: one and a half times as far from the quartiles as they are from each other.
const REACH: f64 = 1.5;
/// Quartiles of fewer say nothing.
const FEWEST: usize = 4;

/// For each figure whether it lies outside the fences.
#[must_use]
pub fn marks(figures: &[f64]) -> Vec<bool> {
    if figures.len() < FEWEST {
        return vec![false; figures.len()];
    }
    let mut data = Data::new(figures.to_vec());
    let (lower, upper) = (data.lower_quartile(), data.upper_quartile());
    let reach = REACH * (upper - lower);
    figures.iter().map(|&figure| figure < lower - reach || figure > upper + reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_the_fences_is_odd() {
        // Quartiles 52 and 58 or nearby by any definition: fences within 40..45 and 65..70.
        let figures = [50.0, 51.0, 52.0, 53.0, 55.0, 56.0, 57.0, 58.0, 59.0, 90.0, 20.0];
        let odd: Vec<f64> =
            figures.iter().zip(marks(&figures)).filter(|one| one.1).map(|one| *one.0).collect();
        assert_eq!(odd, [90.0, 20.0]);
    }

    #[test]
    fn figures_that_agree_have_no_odd_one() {
        assert_eq!(marks(&[3.0; 9]), [false; 9]);
        assert_eq!(marks(&[1.0, 1.0, 900.0]), [false; 3], "too few to tell");
    }
}
