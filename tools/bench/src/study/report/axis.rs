//! An axis with ticks that were chosen.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Linear, or logarithmic.
#[derive(Debug, Clone)]
pub struct Axis {
    ends: Range<f64>,
    ticks: Vec<f64>,
    is_logarithmic: bool,
}

impl Axis {
    /// Each power of ten as long as the next.
    pub fn logarithmic(ends: Range<f64>, ticks: Vec<f64>) -> Self {
        Self { ends, ticks, is_logarithmic: true }
    }

    /// Each unit as long as the next.
    pub fn linear(ends: Range<f64>, ticks: Vec<f64>) -> Self {
        Self { ends, ticks, is_logarithmic: false }
    }

    /// How far along: 0 at its beginning, 1 at its end.
    fn part(&self, value: f64) -> f64 {
        let Range { start, end } = self.ends;
        match self.is_logarithmic {
            // What is not above zero is as far out as makes no difference.
            true => (value.max(start / 1e3) / start).ln() / (end / start).ln(),
            false => (value - start) / (end - start),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (first, last) = (f64::from(limit.0), f64::from(limit.1));
        (first + self.part(*value) * (last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_places() {
        let axis = Axis::logarithmic(1.0..100.0, vec![1.0, 10.0, 100.0]);
        assert_eq!([1.0, 10.0, 100.0].map(|one| axis.map(&one, (0, 200))), [0, 100, 200]);
        assert_eq!(Axis::linear(0.0..4.0, Vec::new()).map(&1.0, (400, 0)), 300);
        assert!(axis.map(&0.0, (0, 200)) < 0);
    }
}
