//! Everything that can be measured.

mod algebra;
mod dwarfs;
mod micro;
mod system;

use std::path::Path;

use super::case::{Case, Figure, Group, Model, Recipe};
use super::environment::Environment;

/// How much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Some two minutes, for a first look.
    Quick,
    /// An hour or so.
    Default,
    /// With the counts of the papers: hours.
    Paper,
}

impl Extent {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Paper => "paper",
        }
    }

    /// Runs of each case that count.
    #[must_use]
    pub fn repetitions(self) -> u32 {
        match self {
            Self::Quick => 5,
            Self::Default => 15,
            Self::Paper => 30,
        }
    }

    /// Seconds of measuring after which no further repetition is begun.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        (self == Self::Quick).then_some(75.0)
    }

    /// One of three.
    fn pick<T>(self, quick: T, default: T, paper: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Default => default,
            Self::Paper => paper,
        }
    }
}

/// All cases of that extent; those of programs of other people for what `nas` has.
#[must_use]
pub fn catalogue(extent: Extent, nas: Option<&Path>) -> Vec<Case> {
    let mut cases = micro::cases(extent);
    cases.extend(dwarfs::cases(extent));
    cases.extend(algebra::cases(extent));
    cases.extend(system::cases(extent, nas));
    cases
}

/// Runs of a program in a guest that was booted for it: the first, and one after which it has got used to it.
const COLD_AND_WARM: [(&str, u32); 2] = [("cold", 1), ("warm", 5)];

/// What most cases have in common.
struct Draft {
    group: Group,
    bench: String,
    n: u64,
    ranks: u32,
    figures: Vec<Figure>,
}

impl Draft {
    fn case(&self, model: Model, environment: Environment, recipe: Recipe) -> Case {
        let (bench, n) = (&self.bench, self.n);
        let (place, model_name) = (environment.name(), model.name());
        Case {
            name: format!("{bench}-{n}.{place}.{model_name}"),
            group: self.group,
            bench: bench.clone(),
            model,
            environment,
            n,
            ranks: self.ranks,
            figures: self.figures.clone(),
            recipe,
        }
    }
}

/// Words and numbers of a command line.
fn words(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(option, value)| [format!("--{option}"), value.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_of_one_case_each() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let cases = catalogue(extent, None);
            let names: HashSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), cases.len());
            assert!(cases.iter().all(|case| !case.figures.is_empty()));
        }
    }

    #[test]
    fn the_quick_one_is_a_part() {
        let lengths = [Extent::Quick, Extent::Default].map(|extent| catalogue(extent, None).len());
        assert!(lengths[0] * 2 < lengths[1], "{lengths:?}");
    }

    #[test]
    fn a_case_is_called_by_group_bench_or_name() {
        let cases = catalogue(Extent::Quick, None);
        let called = |word: &str| cases.iter().filter(|case| case.is_called(word)).count();
        assert!(called("micro") > called("sync") && called("sync") > 0);
        assert_eq!(called("sync-8.guests.vshmem"), 1);
        assert_eq!(called("nothing"), 0);
    }
}
