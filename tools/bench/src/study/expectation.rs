//! How long a study takes: what runs of its kind usually take, and then what its own took here.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::case::{Case, Model, Recipe};
use super::environment::Environment;
use super::journal::{Contents, Sample};

/// Bounds of how much slower or faster than usual a machine is taken for.
const PACE: (f64, f64) = (0.2, 20.0);

/// Seconds of runs, by case.
#[derive(Debug, Default)]
pub struct Expectation {
    /// What a run of each case usually takes.
    usual: HashMap<String, f64>,
    /// What those took that there were, and how many.
    seen: HashMap<String, (f64, u32)>,
    /// All of them, and what they usually would have taken.
    both: (f64, f64),
}

impl Expectation {
    /// Of a study, with what its journal says already.
    #[must_use]
    pub fn of(contents: &Contents, nas: Option<&Path>) -> Self {
        let cases = contents.study.cases.iter();
        let usual = cases.map(|case| (case.name.clone(), usual_seconds(case, nas))).collect();
        let mut expectation = Self { usual, ..Self::default() };
        for Sample { case, around, .. } in contents.warm_ups.iter().chain(&contents.samples) {
            expectation.took(case, around.seconds);
        }
        expectation
    }

    /// A run of that case took so long.
    pub fn took(&mut self, case: &str, seconds: f64) {
        let (sum, count) = self.seen.entry(case.to_owned()).or_default();
        (*sum, *count) = (*sum + seconds, *count + 1);
        self.both.0 += seconds;
        self.both.1 += self.usual.get(case).copied().unwrap_or(0.0);
    }

    /// Seconds of the next run of that case.
    #[must_use]
    pub fn seconds(&self, case: &str) -> f64 {
        if let Some((sum, count)) = self.seen.get(case) {
            return sum / f64::from((*count).max(1));
        }
        let pace = match self.both {
            (seen, usual) if usual > 0.0 => (seen / usual).clamp(PACE.0, PACE.1),
            _ => 1.0,
        };
        self.usual.get(case).copied().unwrap_or(1.0) * pace
    }

    /// Of so many runs of each case, in the order of the cases.
    #[must_use]
    pub fn of_runs(&self, cases: &[Case], runs: &[u32]) -> f64 {
        let each = cases.iter().zip(runs).filter(|(_, runs)| **runs > 0);
        each.map(|(case, runs)| f64::from(*runs) * self.seconds(&case.name)).sum()
    }
}

/// How long a study still takes: each run that is not in its journal, and a warm-up of those cases.
#[must_use]
pub fn time_left(contents: &Contents, nas: Option<&Path>) -> Duration {
    let study = &contents.study;
    let mut runs = vec![study.repetitions; study.cases.len()];
    let places: HashMap<&str, usize> =
        study.cases.iter().enumerate().map(|(nth, case)| (case.name.as_str(), nth)).collect();
    for sample in &contents.samples {
        if let Some(&nth) = places.get(sample.case.as_str()) {
            runs[nth] = runs[nth].saturating_sub(1);
        }
    }
    let with_warm_ups: Vec<u32> = runs.iter().map(|&runs| runs + u32::from(runs > 0)).collect();
    let whole = Expectation::of(contents, nas).of_runs(&study.cases, &with_warm_ups);
    Duration::from_secs_f64(study.seconds.map_or(whole, |most| whole.min(most)))
}

/// Seconds that a run takes with everything that belongs to it, on two CPUs with User Mode Linux
/// guests: so that studies on a quiet machine come out as long as they were. What is not installed
/// takes none.
fn usual_seconds(case: &Case, nas: Option<&Path>) -> f64 {
    let native = case.environment == Environment::Native;
    let place = |here: f64, guests: f64| if native { here } else { guests };
    match &case.recipe {
        Recipe::Roles { .. } => match case.model {
            Model::Tcp | Model::Udp => place(0.15, 1.4),
            _ => place(0.2, 0.4),
        },
        Recipe::Team { .. } => place(0.12, 0.3),
        Recipe::Mpirun { .. } => place(0.25, 1.0),
        Recipe::Alone { program, .. } if program == "tune" => place(4.0, 5.0),
        Recipe::Alone { .. } => place(0.1, 0.5),
        Recipe::Twice { .. } => place(0.4, 1.5),
        Recipe::Confined { .. } => place(1.0, 3.0),
        Recipe::Fresh { .. } => place(0.1, 6.0),
        Recipe::Known { study, .. } if study.find(nas).is_err() => 0.0,
        Recipe::Known { guests, .. } => match guests {
            0..=2 => place(4.0, 6.0),
            more => 10.0 + 2.0 * f64::from(*more),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::facts::Load;
    use crate::study::journal::{Entry, Study};

    fn contents(repetitions: u32) -> Contents {
        let cases = ["a", "b"].map(Case::named).to_vec();
        Contents::of(Study::new("default", 1, repetitions, None, cases))
    }

    fn sample(case: &str, repetition: u32, seconds: f64) -> Entry {
        let around = Load { seconds, ..Load::default() };
        let (value, output) = (1.0, serde_json::json!({ "seconds": 1.0 }));
        let (case, pages) = (case.to_owned(), Vec::new());
        Entry::Sample(Sample { case, repetition, value, around, emulated: None, pages, output })
    }

    #[test]
    fn what_was_measured_counts_and_the_rest_goes_at_its_pace() {
        let mut contents = contents(3);
        // Both usually take 0.4 s; with a warm-up that is 4 runs of each.
        assert_eq!(time_left(&contents, None), Duration::from_secs_f64(3.2));
        contents.add(sample("a", 1, 1.2));
        contents.add(sample("a", 2, 1.2));
        // One more and a warm-up of `a`; `b` three times as slow as usual, too.
        let left = time_left(&contents, None).as_secs_f64();
        assert!((left - (2.0 * 1.2 + 4.0 * 1.2)).abs() < 1e-9, "{left}");
        contents.add(sample("a", 3, 1.2));
        for repetition in 1..=3 {
            contents.add(sample("b", repetition, 1.2));
        }
        assert_eq!(time_left(&contents, None), Duration::ZERO);
    }

    #[test]
    fn a_study_with_little_time_takes_no_longer() {
        let mut contents = contents(100);
        contents.study.seconds = Some(5.0);
        assert_eq!(time_left(&contents, None), Duration::from_secs(5));
    }
}
