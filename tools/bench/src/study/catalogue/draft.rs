//! How much is measured, and what most cases have in common.

use crate::study::case::{Case, Figure, Group, Model, Recipe};
use crate::study::environment::Environment;

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
    pub(super) fn pick<T>(self, quick: T, default: T, paper: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Default => default,
            Self::Paper => paper,
        }
    }
}

/// Runs of a program in a guest that was booted for it: the first, and one after which it has got
/// used to it.
pub(super) const COLD_AND_WARM: [(&str, u32); 2] = [("cold", 1), ("warm", 5)];

/// What most cases have in common.
pub(super) struct Draft {
    pub(super) group: Group,
    pub(super) bench: String,
    pub(super) n: u64,
    pub(super) ranks: u32,
    pub(super) figures: Vec<Figure>,
}

impl Draft {
    pub(super) fn case(&self, model: Model, environment: Environment, recipe: Recipe) -> Case {
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
pub(super) fn words(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(option, value)| [format!("--{option}"), value.clone()]).collect()
}
