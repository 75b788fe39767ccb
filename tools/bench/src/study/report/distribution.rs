//! Distributions of round trips, each timed on its own: their curves and their quantiles.

use serde_json::Value;

use super::chart::{Curves, Line, Point, Scale, nines, percent_of_nines};
use super::diagram::{Diagram, diagram};
use super::words;
use crate::report::Rows;
use crate::study::case::{Case, Group, Model};
use crate::study::environment::Environment;
use crate::study::journal::Contents;

/// Those that are read off.
const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];

/// Round trips of one case, of all its runs, the shortest first: each time with the part of all
/// that it stands for.
struct Distribution<'a> {
    case: &'a Case,
    rounds: f64,
    times: Vec<(f64, f64)>,
}

impl<'a> Distribution<'a> {
    /// Runs say their quantiles: `each` with `rounds`, and with pairs of a part and a time.
    fn of(contents: &Contents, case: &'a Case) -> Option<Self> {
        let samples = contents.samples.iter().filter(|sample| sample.case == case.name);
        let runs: Vec<&Value> =
            samples.map(|sample| &sample.output["each"]).filter(|each| each.is_object()).collect();
        let mut times: Vec<(f64, f64)> = Vec::new();
        for run in &runs {
            let mut before = 0.0;
            for pair in run["quantiles"].as_array().into_iter().flatten() {
                let (part, time) = (pair[0].as_f64()?, pair[1].as_f64()?);
                times.push((time.max(0.1), (part - before) / runs.len() as f64));
                before = part;
            }
        }
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let rounds = runs.iter().filter_map(|run| run["rounds"].as_f64()).sum();
        (!times.is_empty()).then_some(Self { case, rounds, times })
    }

    /// The time that this part of all is not above.
    fn quantile(&self, part: f64) -> f64 {
        let mut below = 0.0;
        let found = self.times.iter().find(|(_, share)| {
            below += share;
            below >= part - 1e-9
        });
        found.or(self.times.last()).map_or(0.0, |(time, _)| *time)
    }

    fn line(&self, name: String, nth: usize) -> Line {
        let mut below = 0.0;
        let highest = nines(1.0 - 1e-4);
        let points = self.times.iter().map(|(time, share)| {
            below += share;
            let y = nines(below).min(highest);
            Point { x: *time, y, low: y, high: y }
        });
        let stops = QUANTILES.map(|(part, _)| (self.quantile(part), nines(part))).to_vec();
        Line { name, points: points.collect(), colour: nth, mark: nth, stops: Some(stops) }
    }
}

/// Those of the smallest payload that everything has.
fn all(contents: &Contents) -> Vec<Distribution<'_>> {
    let cases = contents.study.cases.iter().filter(|case| case.group == Group::Micro);
    cases.filter_map(|case| Distribution::of(contents, case)).collect()
}

/// One curve for each transport, between guests and in one OS kernel.
pub fn diagrams(contents: &Contents) -> Vec<Diagram> {
    let all = all(contents);
    let in_place = |name: &str, title: &str, place: Environment, shared: Model| {
        let of = all.iter().filter(|one| {
            let case = one.case;
            let is_meant = matches!(case.model, Model::Tcp | Model::Udp) || case.model == shared;
            case.environment == place && is_meant && case.n == 8
        });
        let named = |(nth, one): (usize, &Distribution<'_>)| {
            let case = one.case;
            let over = if case.bench == case.model.name() { "network" } else { case.model.words() };
            one.line(format!("{}, {over}", case.bench), nth)
        };
        let curves = Curves {
            x_name: "time of a round trip of 8 B",
            y_name: "round trips that take no longer",
            lines: of.enumerate().map(named).collect(),
            show_x: words::tick_of_time,
            by_twos: false,
            show_y: percent_of_nines,
            scale: Scale::Nines,
        };
        let caption = "Empirical distribution of round trips that were timed one by one, over all runs; the vertical axis gives \
                       each further nine the same height. Marks: p50, p99, p99.9.";
        diagram(name, title, caption, |format| curves.draw(format))
    };
    [
        in_place(
            "distribution-guests",
            "Distribution of round trips between two guests",
            Environment::Guests,
            Model::Vshmem,
        ),
        in_place(
            "distribution-one-kernel",
            "Distribution of round trips in one OS kernel",
            Environment::Native,
            Model::Sysv,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// p50, p99 and p99.9 of every case that has them; nothing where there are too few round trips.
pub fn rows(contents: &Contents) -> Rows {
    let title = "Round trips, each timed on its own";
    let columns = ["what", "where", "round trips", "p50", "p99", "p99.9", "longest"];
    let mut rows = Rows::new(title, columns);
    for one in all(contents) {
        let mut row = vec![
            format!("{} {}", one.case.bench, words::size(one.case)),
            words::place(one.case),
            format!("{}", one.rounds),
        ];
        row.extend(QUANTILES.map(|(part, _)| match one.rounds * (1.0 - part) < 1.0 {
            true => String::new(),
            false => words::figure(one.quantile(part), "ns"),
        }));
        row.push(words::figure(one.quantile(1.0), "ns"));
        rows.rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::study::facts::Load;
    use crate::study::journal::{Sample, Study};

    #[test]
    fn quantiles_are_of_all_runs() {
        let mut case = Case::named("sync-8.guests.vshmem");
        case.group = Group::Micro;
        let sample = |repetition, long: f64| Sample {
            case: case.name.clone(),
            repetition,
            value: 1.0,
            around: Load::default(),
            emulated: None,
            pages: Vec::new(),
            output: json!({"each": {"rounds": 1000, "quantiles":
                [[0.5, 100.0], [0.99, 200.0], [0.999, long], [1.0, 9000.0]]}}),
        };
        let contents = Contents {
            study: Study::new("quick", 1, 2, None, vec![case.clone()]),
            sessions: Vec::new(),
            warm_ups: Vec::new(),
            samples: vec![sample(1, 300.0), sample(2, 5000.0)],
            failed_runs: Vec::new(),
        };
        let rows = rows(&contents).rows;
        assert_eq!(rows[0][2..], ["2000", "100 ns", "200 ns", "5.00 us", "9.00 us"]);
    }
}
