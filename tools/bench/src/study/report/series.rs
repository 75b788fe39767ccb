//! The figures of a case, in the order of repetitions, and what they come to.

use std::collections::BTreeMap;

use crate::bootstrap::Interval;
use crate::statistics::Spread;
use crate::study::case::{Case, Figure, Group};
use crate::study::journal::Contents;
use crate::study::verdict::Ratio;
use crate::study::{outliers, plausible, t_distribution};

/// One figure of one case.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// The case.
    pub case: &'a Case,
    /// The figure.
    pub figure: &'a Figure,
    /// By repetition.
    pub values: BTreeMap<u32, f64>,
    /// Of the first run in its place, which does not count: the median over sessions.
    pub first: Option<f64>,
    /// Interrupts and switches of the machine each second: medians.
    pub interrupts: f64,
    /// See `interrupts`.
    pub switches: f64,
    /// Who emulated the place, if it was.
    pub emulated: Option<&'a str>,
}

/// What a series comes to.
#[derive(Debug, Clone)]
pub struct Sum {
    /// Mean and variance.
    pub moments: t_distribution::Moments,
    /// Median and spread.
    pub spread: Spread,
    /// That holds the mean in 95 of 100 cases.
    pub at_95: Option<Interval>,
    /// In 97.
    pub at_97: Option<Interval>,
    /// The figures in their order, and which are odd.
    pub figures: Vec<(f64, bool)>,
}

impl Series<'_> {
    /// Whether it is the figure that cases are compared by.
    pub fn is_first(&self) -> bool {
        self.case.figures.first() == Some(self.figure)
    }

    /// The figures, in the order of repetitions.
    pub fn list(&self) -> Vec<f64> {
        self.values.values().copied().collect()
    }

    /// Median, mean, intervals; none without samples.
    pub fn sum(&self) -> Option<Sum> {
        let list = self.list();
        let moments = t_distribution::Moments::of(&list)?;
        Some(Sum {
            moments,
            spread: Spread::of(&list)?,
            at_95: moments.interval(0.95),
            at_97: moments.interval(0.97),
            figures: list.iter().copied().zip(outliers::marks(&list)).collect(),
        })
    }

    /// How many times as fast this is as another, by pairs of the same repetition.
    pub fn against(&self, rival: &Series<'_>, seed: u64) -> Option<Ratio> {
        let pairs = self
            .values
            .iter()
            .filter_map(|(repetition, own)| Some((*own, *rival.values.get(repetition)?)));
        let (own, rivals): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let ratio = Ratio::of_speeds(&own, &rivals, self.figure.better, seed)?;
        let emulated = self.emulated.or(rival.emulated).is_some();
        Some(if emulated { ratio.emulated() } else { ratio })
    }
}

/// All that was measured, in the order of the cases.
pub fn all(contents: &Contents) -> Vec<Series<'_>> {
    let mut series = Vec::new();
    for case in &contents.study.cases {
        let samples: Vec<_> =
            contents.samples.iter().filter(|sample| sample.case == case.name).collect();
        if samples.is_empty() {
            continue;
        }
        let median = |of: fn(&crate::study::facts::Load) -> f64| {
            let list: Vec<f64> = samples.iter().map(|sample| of(&sample.around)).collect();
            Spread::of(&list).map_or(0.0, |spread| spread.median)
        };
        let (interrupts, switches) =
            (median(|around| around.interrupts), median(|around| around.switches));
        let emulated = samples.iter().find_map(|sample| sample.emulated.as_deref());
        for figure in &case.figures {
            let values: BTreeMap<u32, f64> = samples
                .iter()
                .filter_map(|sample| {
                    Some((sample.repetition, measured(case, figure, &sample.output)?))
                })
                .collect();
            let firsts: Vec<f64> = contents
                .warm_ups
                .iter()
                .filter(|sample| sample.case == case.name)
                .filter_map(|sample| measured(case, figure, &sample.output))
                .collect();
            let first = Spread::of(&firsts).map(|spread| spread.median);
            if !values.is_empty() {
                series.push(Series { case, figure, values, first, interrupts, switches, emulated });
            }
        }
    }
    series
}

/// The figure of a run; none if it cannot be what it is called.
fn measured(case: &Case, figure: &Figure, output: &serde_json::Value) -> Option<f64> {
    figure.of(output).filter(|value| plausible::objection(case, figure, output, *value).is_none())
}

/// Those of a group that cases are compared by.
pub fn firsts<'a, 'b>(all: &'b [Series<'a>], group: Group) -> Vec<&'b Series<'a>> {
    all.iter().filter(|series| series.case.group == group && series.is_first()).collect()
}
