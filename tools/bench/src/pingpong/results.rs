//! Results.

use serde_json::{Value, json};

use super::Contender;
use crate::kernel::Reading;
use crate::machine::Machine;
use crate::report::{Rows, bytes, duration, factor, microseconds, spread};
use crate::statistics::{Spread, ratios};

/// Everything that was measured.
#[derive(Debug)]
pub struct Results {
    /// The machine, when it began.
    pub machine: Machine,
    /// What the sides are called.
    pub noun: &'static str,
    /// The place.
    pub site: String,
    /// The two CPUs.
    pub cpus: [usize; 2],
    /// By size.
    pub sizes: Vec<SizeResults>,
}

/// What was measured with one payload.
#[derive(Debug)]
pub struct SizeResults {
    /// The payload, in bytes.
    pub size: u64,
    /// Each contender's readings, by pair index.
    pub readings: Vec<(Contender, Vec<Reading>)>,
}

/// The ratios that are shown: over, under. Of times, so they say how many times as fast vshmem is.
const RATIOS: [(Contender, Contender); 3] = [
    (Contender::Sysv, Contender::Vshmem),
    (Contender::Tcp, Contender::Vshmem),
    (Contender::Udp, Contender::Vshmem),
];

impl SizeResults {
    /// Medians of a contender, in nanoseconds a round trip, by pair index; none if it does not
    /// carry this size.
    #[must_use]
    pub fn medians(&self, contender: Contender) -> Vec<f64> {
        let readings = self.readings.iter().find(|(one, _)| *one == contender);
        readings.map_or_else(Vec::new, |(_, all)| all.iter().map(|one| one.median_ns).collect())
    }

    /// Ratios of two contenders, by pair index.
    #[must_use]
    pub fn ratios(&self, over: Contender, under: Contender) -> Vec<f64> {
        ratios(&self.medians(over), &self.medians(under))
    }
}

impl Results {
    /// The times.
    #[must_use]
    pub fn times(&self) -> Rows {
        let pairs = self.sizes.first().map_or(0, |size| size.medians(Contender::Sysv).len());
        let title =
            format!("Round trip: median of {pairs} interleaved pairs (smallest .. largest)");
        let across = |contender: Contender| format!("{}, 2 {}", contender.name(), self.noun);
        let columns = Contender::ALL.map(|contender| match contender {
            Contender::Sysv => "sysv, 1 kernel".to_owned(),
            other => across(other),
        });
        let mut rows = Rows::new(&title, ["size".to_owned()].into_iter().chain(columns));
        for size in &self.sizes {
            let cell = |contender| show(&size.medians(contender), duration);
            rows.rows.push([vec![bytes(size.size)], Contender::ALL.map(cell).to_vec()].concat());
        }
        rows
    }

    /// The ratios.
    #[must_use]
    pub fn factors(&self) -> Rows {
        let columns = RATIOS.map(|(over, under)| format!("{} / {}", over.name(), under.name()));
        let title =
            "How many times as fast vshmem is, within each pair: median (smallest .. largest)";
        let mut rows = Rows::new(title, ["size".to_owned()].into_iter().chain(columns));
        for size in &self.sizes {
            let cell = |(over, under)| show(&size.ratios(over, under), factor);
            rows.rows.push([vec![bytes(size.size)], RATIOS.map(cell).to_vec()].concat());
        }
        rows
    }

    /// Every pair, a line for each contender.
    #[must_use]
    pub fn every_pair(&self) -> Rows {
        let mut rows = Rows::new("Every pair, in us", ["size", "", "by pair index"]);
        for size in &self.sizes {
            for (contender, _) in &size.readings {
                let medians = size.medians(*contender);
                let cells: Vec<String> = medians.iter().map(|ns| microseconds(*ns)).collect();
                rows.rows.push(vec![bytes(size.size), contender.name().into(), cells.join(" ")]);
            }
        }
        rows
    }

    /// Everything, for programs: the machine, then a line for each run, then one for each size.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, Value)> {
        let mut machine = json!(self.machine);
        machine["site"] = json!(self.site);
        machine["site_cpus"] = json!(self.cpus);
        let mut lines = vec![("machine", machine)];
        for size in &self.sizes {
            for (contender, readings) in &size.readings {
                for (pair, reading) in readings.iter().enumerate() {
                    let mut line = json!({"benchmark": "pingpong", "size": size.size, "contender": contender, "pair": pair});
                    if let (Some(line), Value::Object(more)) =
                        (line.as_object_mut(), json!(reading))
                    {
                        line.extend(more);
                    }
                    lines.push(("sample", line));
                }
            }
        }
        lines.extend(self.sizes.iter().map(|size| ("summary", summary(size))));
        lines
    }
}

fn summary(size: &SizeResults) -> Value {
    let times: serde_json::Map<String, Value> = size
        .readings
        .iter()
        .map(|(contender, _)| {
            (contender.name().to_owned(), json!(Spread::of(&size.medians(*contender))))
        })
        .collect();
    let factors: serde_json::Map<String, Value> = RATIOS
        .iter()
        .map(|&(over, under)| {
            (
                format!("{}/{}", over.name(), under.name()),
                json!(Spread::of(&size.ratios(over, under))),
            )
        })
        .collect();
    json!({"benchmark": "pingpong", "size": size.size, "round_trip_ns": times, "ratio": factors})
}

fn show(figures: &[f64], unit: impl Fn(f64) -> String) -> String {
    Spread::of(figures).map_or_else(String::new, |one| spread(&one, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(medians: &[f64]) -> Vec<Reading> {
        let reading = |&median_ns: &f64| Reading {
            rounds: 100,
            batches: 10,
            median_ns,
            min_ns: median_ns,
            p99_ns: median_ns,
            mean_ns: median_ns,
            lost: 0,
            clock_ns: 40.0,
        };
        medians.iter().map(reading).collect()
    }

    fn results() -> Results {
        let sizes = vec![
            SizeResults {
                size: 8,
                readings: vec![
                    (Contender::Sysv, readings(&[480.0, 100.0, 500.0])),
                    (Contender::Vshmem, readings(&[480.0, 110.0, 490.0])),
                    (Contender::Tcp, readings(&[120_000.0, 132_000.0, 147_000.0])),
                    (Contender::Udp, readings(&[96_000.0, 99_000.0, 98_000.0])),
                ],
            },
            SizeResults {
                size: 65_536,
                readings: vec![
                    (Contender::Sysv, readings(&[5000.0; 3])),
                    (Contender::Vshmem, readings(&[5000.0; 3])),
                    (Contender::Tcp, readings(&[1e6; 3])),
                ],
            },
        ];
        Results {
            machine: Machine::here(),
            noun: "guests",
            site: "here".into(),
            cpus: [0, 1],
            sizes,
        }
    }

    #[test]
    fn tables() {
        let results = results();
        let times = results.times();
        assert!(times.title.contains("3 interleaved pairs"));
        assert_eq!(
            times.columns,
            ["size", "sysv, 1 kernel", "vshmem, 2 guests", "tcp, 2 guests", "udp, 2 guests"]
        );
        assert_eq!(times.rows[0][1], "480 ns (100 ns .. 500 ns)");
        assert_eq!(times.rows[0][3], "132 us (120 us .. 147 us)");
        assert_eq!(times.rows[1][4], "", "no datagram holds 64 KiB");
        let factors = results.factors();
        assert_eq!(factors.columns, ["size", "sysv / vshmem", "tcp / vshmem", "udp / vshmem"]);
        assert_eq!(factors.rows[0][1], "1.00x (0.91x .. 1.02x)");
        assert_eq!(factors.rows[0][2], "300x (250x .. 1200x)");
        assert_eq!(factors.rows[1][1..], ["1.00x (1.00x .. 1.00x)", "200x (200x .. 200x)", ""]);
        assert_eq!(results.every_pair().rows[2], ["8 B", "tcp", "120 132 147"]);
        assert_eq!(results.every_pair().rows.len(), 7);
    }

    #[test]
    fn lines() {
        let lines = results().lines();
        let of = |kind: &str| lines.iter().filter(|line| line.0 == kind).collect::<Vec<_>>();
        assert_eq!((of("machine").len(), of("sample").len(), of("summary").len()), (1, 21, 2));
        let sample = &of("sample")[4].1;
        assert_eq!(
            (&sample["contender"], &sample["pair"], &sample["median_ns"]),
            (&json!("vshmem"), &json!(1), &json!(110.0))
        );
        let summary = &of("summary")[0].1;
        assert_eq!(summary["ratio"]["sysv/vshmem"]["median"], json!(1.0));
        assert_eq!(of("summary")[1].1["ratio"]["udp/vshmem"], Value::Null);
    }
}
