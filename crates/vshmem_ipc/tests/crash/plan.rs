//! Which crash points are come to in which boot.

use std::collections::BTreeMap;
use std::fmt;

use crate::run;
use crate::scenario::{SCENARIOS, Scenario};

/// Scenarios that want the pool for themselves: they fill its heap or count its clean pages, or see
/// to all dead ones.
const ALONE: [&str; 7] =
    ["large-sets", "full-heap", "cleans", "reaps", "reaps-domain", "departs", "repairs"];

/// One client, and where it stops.
#[derive(Clone)]
pub struct Step {
    pub scenario: &'static Scenario,
    pub point: String,
}

/// What happens in one boot.
#[derive(Clone)]
pub struct Batch(pub Vec<Step>);

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|step| format!("{} {}", step.scenario.name, step.point));
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

impl Batch {
    /// The scenario that has the pool for itself, if it is one of those.
    pub fn alone(&self) -> Option<&'static Scenario> {
        self.0.first().map(|step| step.scenario).filter(|one| ALONE.contains(&one.name))
    }
}

pub struct Plan {
    batches: Vec<Batch>,
    /// Crash points that there are.
    pub points: usize,
}

impl Plan {
    /// That many batches; those with many clients first.
    pub fn choose(&self, boots: usize) -> impl Iterator<Item = &Batch> {
        self.batches.iter().take(boots)
    }
}

/// Every crash point once, in the first scenario that passes it and can share its pool; up to
/// `together` in one guest.
pub fn make(together: usize) -> Plan {
    let most = together;
    let mut places: BTreeMap<String, &'static Scenario> = BTreeMap::new();
    let only = std::env::var("CRASH_SCENARIO");
    let only_points = std::env::var("CRASH_POINT").unwrap_or_default();
    let (alone, together): (Vec<_>, Vec<_>) = SCENARIOS
        .iter()
        .filter(|scenario| only.as_ref().map_or(true, |name| name == scenario.name))
        .partition(|scenario| ALONE.contains(&scenario.name));
    for scenario in together.into_iter().chain(alone) {
        for point in run::points(scenario).into_keys().filter(|name| name.contains(&only_points)) {
            places.entry(point).or_insert(scenario);
        }
    }
    let points = places.len();
    let steps = places.into_iter().map(|(point, scenario)| Step { scenario, point });
    let (alone, mut together): (Vec<_>, Vec<_>) =
        steps.partition(|step| ALONE.contains(&step.scenario.name));
    // Not all of a change in one boot: who comes next would carry on what the last one left.
    let boots = together.len().div_ceil(most).max(1);
    let mut shared = vec![Batch(Vec::new()); boots];
    for (at, step) in together.drain(..).enumerate() {
        shared[at % boots].0.push(step);
    }
    let single = alone.into_iter().map(|step| Batch(vec![step]));
    Plan { batches: shared.into_iter().chain(single).collect(), points }
}
