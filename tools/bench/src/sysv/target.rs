//! What a figure should be, and whether it is.

use serde::Serialize;

use crate::bootstrap::Interval;

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// This much or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
}

impl Target {
    /// At most so many times the time of what it is compared with.
    #[must_use]
    pub fn at_most_times(times: f64) -> Self {
        Self::AtLeast(1.0 / times)
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Above(bound) => value > bound,
        }
    }

    /// Whether `value` meets it, and whether all of `interval` says the same.
    #[must_use]
    pub fn judge(self, value: f64, interval: Option<Interval>) -> Verdict {
        let met = self.holds(value);
        let agrees = |end| self.holds(end) == met;
        let sure = interval.is_none_or(|range| agrees(range.low) && agrees(range.high));
        match (met, sure) {
            (true, true) => Verdict::Met,
            (true, false) => Verdict::MetUnsure,
            (false, true) => Verdict::NotMet,
            (false, false) => Verdict::NotMetUnsure,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // As what it was made of: so many times the other's time.
            Self::AtLeast(bound) if *bound < 1.0 => {
                write!(f, ">= 1/{}", (100.0 / bound).round() / 100.0)
            }
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
            Self::Above(bound) => write!(f, "> {bound}"),
        }
    }
}

/// What became of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It is met, at both ends of the interval.
    #[serde(rename = "met")]
    Met,
    /// It is met, but not at one end of the interval.
    #[serde(rename = "met, unsure")]
    MetUnsure,
    /// It is not met, at either end of the interval.
    #[serde(rename = "not met")]
    NotMet,
    /// It is not met, but it is at one end of the interval.
    #[serde(rename = "not met, unsure")]
    NotMetUnsure,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::MetUnsure => "met, unsure",
            Self::NotMet => "not met",
            Self::NotMetUnsure => "not met, unsure",
        })
    }
}

/// So many times as fast as the other.
pub(super) fn faster(times: f64) -> Option<Target> {
    Some(Target::AtLeast(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_or_not_and_the_interval_says_how_surely() {
        let range = |low, high| Some(Interval { low, high });
        let fast = Target::AtLeast(15.0);
        assert_eq!(fast.judge(18.0, range(17.0, 19.0)), Verdict::Met);
        assert_eq!(fast.judge(15.5, range(14.0, 17.0)), Verdict::MetUnsure);
        assert_eq!(fast.judge(14.0, range(13.0, 14.9)), Verdict::NotMet);
        assert_eq!(fast.judge(14.0, range(13.0, 15.0)), Verdict::NotMetUnsure);
        let target = Target::at_most_times(1.25);
        assert_eq!(target.judge(0.9, range(0.8, 1.0)), Verdict::Met);
        assert_eq!(target.judge(0.9, range(0.7, 1.0)), Verdict::MetUnsure);
        assert_eq!(target.to_string(), ">= 1/1.25");
        assert_eq!(Target::at_most_times(1.0).to_string(), ">= 1");
        assert_eq!(Target::Above(0.0).judge(0.0, None), Verdict::NotMet);
        assert_eq!(Target::Above(0.0).judge(0.2, None), Verdict::Met);
    }
}
