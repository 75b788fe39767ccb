//! Results.

use serde_json::{Map, Value, json};

use super::comparison::{Comparison, Figure, Question};
use super::plan::Sample;
use super::target::{Target, Verdict};
use crate::bootstrap::{Interval, interval, quotient};
use crate::error::Error;
use crate::machine::Machine;
use crate::report::{Rows, duration, factor, microseconds};
use crate::statistics::Spread;

/// Everything that was measured.
#[derive(Debug)]
pub struct Results {
    /// The machine, when it began.
    pub machine: Machine,
    /// The CPUs that were pinned to.
    pub cpus: [usize; 2],
    /// Of the order of turns, and of the intervals.
    pub seed: u64,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What could not be measured, and why.
    pub failed: Vec<(String, Error)>,
}

/// A comparison and its samples.
#[derive(Debug)]
pub struct Measured {
    /// What was compared.
    pub comparison: Comparison,
    /// By contender, then by pair index.
    pub samples: Vec<Vec<Sample>>,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What it is called.
    pub label: String,
    /// The figure.
    pub value: f64,
    /// Where it lies in 95 of 100 such measurements.
    pub interval: Option<Interval>,
    /// What it should be.
    pub target: Option<Target>,
    /// Whether it is.
    pub verdict: Option<Verdict>,
}

impl Measured {
    fn figures(&self, nth: usize, figure: Figure) -> Vec<f64> {
        self.samples[nth].iter().filter_map(|sample| sample.figure(figure)).collect()
    }

    /// The answers. On an emulated machine targets are neither met nor missed.
    #[must_use]
    pub fn answers(&self, seed: u64, emulated: bool) -> Vec<Answer> {
        let answers = self.comparison.questions.iter().filter_map(|question| {
            let (label, value, interval, target) = self.answer(question, seed)?;
            let verdict = target.filter(|_| !emulated).map(|target| target.judge(value, interval));
            Some(Answer { label, value, interval, target, verdict })
        });
        answers.collect()
    }

    fn answer(
        &self,
        question: &Question,
        seed: u64,
    ) -> Option<(String, f64, Option<Interval>, Option<Target>)> {
        match question {
            Question::Quotient { label, figure, over, under, target } => {
                let lists = |indexes: &[usize]| -> Vec<Vec<f64>> {
                    indexes.iter().map(|&nth| self.figures(nth, *figure)).collect()
                };
                let (over, under) = (lists(over), lists(under));
                let over: Vec<&[f64]> = over.iter().map(Vec::as_slice).collect();
                let under: Vec<&[f64]> = under.iter().map(Vec::as_slice).collect();
                let range = interval(&over, &under, seed);
                Some((label.clone(), quotient(&over, &under)?, range, *target))
            }
            Question::SmallestShare { of, target } => {
                let shares = self.samples[*of].iter().filter_map(|sample| sample.smallest_share);
                let smallest = shares.min_by(f64::total_cmp)?;
                let name = self.comparison.contenders[*of].place.name();
                Some((format!("smallest share, {name}"), smallest, None, *target))
            }
        }
    }
}

impl Results {
    /// The times: a line for each contender.
    #[must_use]
    pub fn times(&self) -> Rows {
        let title = "Time of one round, interleaved runs";
        let columns = ["name", "", "median", "quartiles", "smallest .. largest", "runs", "CPU"];
        let mut rows = Rows::new(title, columns);
        for measured in &self.measured {
            for (nth, contender) in measured.comparison.contenders.iter().enumerate() {
                let times = measured.figures(nth, Figure::Wall);
                let Some(spread) = Spread::of(&times) else { continue };
                let range =
                    |low: f64, high: f64| format!("{} .. {}", duration(low), duration(high));
                let cpu = Spread::of(&measured.figures(nth, Figure::Cpu));
                rows.rows.push(vec![
                    measured.comparison.name.clone(),
                    contender.label.clone(),
                    duration(spread.median),
                    range(spread.lower_quartile, spread.upper_quartile),
                    range(spread.min, spread.max),
                    times.len().to_string(),
                    cpu.map_or_else(String::new, |cpu| duration(cpu.median)),
                ]);
            }
        }
        rows
    }

    /// The answers: a line for each.
    #[must_use]
    pub fn answers(&self) -> Rows {
        let title = "How many times as fast B is in `A / B`: ratios of medians, 95 % intervals";
        let columns = ["name", "", "ratio", "interval", "target", "verdict"];
        let mut rows = Rows::new(title, columns);
        for measured in &self.measured {
            for answer in measured.answers(self.seed, self.machine.emulated.is_some()) {
                let range = |one: Interval| format!("{} .. {}", factor(one.low), factor(one.high));
                rows.rows.push(vec![
                    measured.comparison.name.clone(),
                    answer.label,
                    factor(answer.value),
                    answer.interval.map_or_else(String::new, range),
                    answer.target.map_or_else(String::new, |target| target.to_string()),
                    answer.verdict.map_or_else(String::new, |verdict| verdict.to_string()),
                ]);
            }
        }
        rows
    }

    /// Every run by pair index: a line for each contender.
    #[must_use]
    pub fn every_pair(&self) -> Rows {
        let mut rows = Rows::new("Every pair, in us", ["name", "", "by pair index"]);
        for measured in &self.measured {
            for (nth, contender) in measured.comparison.contenders.iter().enumerate() {
                let times = measured.figures(nth, Figure::Wall);
                let cells: Vec<String> = times.iter().map(|ns| microseconds(*ns)).collect();
                rows.rows.push(vec![
                    measured.comparison.name.clone(),
                    contender.label.clone(),
                    cells.join(" "),
                ]);
            }
        }
        rows
    }

    /// Everything, for programs: the machine with `more` about it, then a line for each run, then
    /// one for each comparison.
    #[must_use]
    pub fn lines(&self, more: &Value) -> Vec<(&'static str, Value)> {
        let about = json!({"site_cpus": self.cpus, "seed": self.seed});
        let mut lines = vec![("machine", merged([json!(self.machine), about, more.clone()]))];
        for measured in &self.measured {
            let contenders = measured.comparison.contenders.iter();
            for (contender, samples) in contenders.zip(&measured.samples) {
                for (pair, sample) in samples.iter().enumerate() {
                    let head = json!({
                        "benchmark": "sysv", "name": measured.comparison.name, "contender": contender.label,
                        "place": contender.place.name(), "pair": pair,
                    });
                    lines.push(("sample", merged([head, json!(sample)])));
                }
            }
        }
        lines.extend(self.measured.iter().map(|measured| ("summary", self.summary(measured))));
        for (name, error) in &self.failed {
            lines.push((
                "failure",
                json!({"benchmark": "sysv", "name": name, "error": error.to_string()}),
            ));
        }
        lines
    }

    fn summary(&self, measured: &Measured) -> Value {
        let contenders = measured.comparison.contenders.iter().enumerate();
        let times: Map<String, Value> = contenders
            .map(|(nth, contender)| {
                let spread = Spread::of(&measured.figures(nth, Figure::Wall));
                (contender.label.clone(), json!(spread))
            })
            .collect();
        let answers: Vec<Value> = measured
            .answers(self.seed, self.machine.emulated.is_some())
            .into_iter()
            .map(|answer| {
                json!({
                    "label": answer.label, "value": answer.value, "interval": answer.interval,
                    "target": answer.target, "verdict": answer.verdict,
                })
            })
            .collect();
        json!({
            "benchmark": "sysv", "name": measured.comparison.name, "about": measured.comparison.about,
            "round_ns": times, "answers": answers,
        })
    }
}

fn merged<const N: usize>(parts: [Value; N]) -> Value {
    let members = parts.into_iter().filter_map(|part| match part {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Reading;
    use crate::sysv::{KernelLimits, catalogue};

    fn samples(times: &[f64], share: Option<f64>) -> Vec<Sample> {
        let sample = |&median_ns: &f64| Sample {
            reading: Reading {
                rounds: 100,
                batches: 10,
                median_ns,
                min_ns: median_ns,
                p99_ns: median_ns,
                mean_ns: median_ns,
                lost: 0,
                clock_ns: 20.0,
            },
            cpu_ns: share.map(|_| median_ns * 2.0),
            others_cpu_ns: share.map(|_| 5.0),
            smallest_share: share,
        };
        times.iter().map(sample).collect()
    }

    fn results(name: &str, samples: Vec<Vec<Sample>>) -> Results {
        let limits = KernelLimits { semaphore_sets: 32_000, queues: 32_000, segments: 4096 };
        let comparison = catalogue(limits).into_iter().find(|one| one.name == name).unwrap();
        let machine = Machine { emulated: None, ..Machine::here() };
        Results {
            machine,
            cpus: [0, 1],
            seed: 3,
            measured: vec![Measured { comparison, samples }],
            failed: Vec::new(),
        }
    }

    #[test]
    fn a_target_that_is_met_and_one_on_an_emulated_machine() {
        let both = vec![samples(&[500.0, 510.0, 490.0], None), samples(&[25.0; 3], None)];
        let mut results = results("semop", both);
        assert_eq!(
            results.answers().rows,
            [["semop", "kernel / pool", "20.0x", "19.6x .. 20.4x", ">= 15", "met"]]
        );
        let times = &results.times().rows;
        assert_eq!(times[0][..3], ["semop", "kernel", "500 ns"]);
        assert_eq!(times[0][4..], ["490 ns .. 510 ns", "3", ""]);
        results.machine.emulated = Some("a simulator".into());
        assert_eq!(results.answers().rows[0][5], "");
    }

    #[test]
    fn contention_has_a_smallest_share() {
        let pool = [samples(&[100.0], Some(0.4)), samples(&[100.0], Some(0.2))].concat();
        let both = vec![samples(&[90.0, 90.0], Some(0.9)), pool];
        let rows = results("contend-sem-8", both).answers().rows;
        assert_eq!(rows[0][2..], ["0.90x", "0.90x .. 0.90x", ">= 1", "not met"]);
        assert_eq!(rows[1][1..], ["smallest share, kernel", "0.90x", "", "", ""]);
        assert_eq!(rows[2][1..], ["smallest share, pool", "0.20x", "", "> 0", "met"]);
    }

    #[test]
    fn cpu_time_of_all_processes_counts() {
        let all = [100.0, 50.0, 10.0].map(|ns| samples(&[ns], Some(1.0))).to_vec();
        let rows = results("shm-1m-touched", all).answers().rows;
        assert_eq!(
            rows[1][1..],
            ["kernel / prepared pool", "10.0x", "10.0x .. 10.0x", ">= 10", "met"]
        );
        assert_eq!(rows[3][2], "8.20x", "(2 * 100 + 5) / (2 * 10 + 5)");
    }

    #[test]
    fn lines() {
        let both = vec![samples(&[500.0, 510.0], None), samples(&[25.0, 26.0], None)];
        let lines = results("semop", both).lines(&json!({"pool": "p"}));
        let kinds: Vec<&str> = lines.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["machine", "sample", "sample", "sample", "sample", "summary"]);
        assert_eq!((&lines[0].1["pool"], &lines[0].1["seed"]), (&json!("p"), &json!(3)));
        assert_eq!(lines[3].1["place"], "pool");
        assert_eq!(lines[3].1["median_ns"], 25.0);
        let answer = &lines[5].1["answers"][0];
        assert_eq!(
            (&answer["verdict"], &answer["target"]["at_least"]),
            (&json!("met"), &json!(15.0))
        );
        assert_eq!(lines[5].1["round_ns"]["kernel"]["median"], 505.0);
    }
}
