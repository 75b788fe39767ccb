//! Prometheus' text format: families of samples, each with a line of help and its type.

use std::collections::HashMap;
use std::fmt::Write as _;

/// A counter that has fallen by at most so much has not begun anew: objects are read without a
/// lock, and a reading is too high by what others are writing at that moment.
const MISREAD: f64 = 1000.0;

/// What kind of number a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// It only rises.
    Counter,
    /// It may fall.
    Gauge,
}

/// A family's name, help and type.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Type,
}

/// Families in the order of their first sample: the samples of a family have to stand together.
#[derive(Debug, Default, Clone)]
pub struct Exposition {
    families: Vec<(Family, String)>,
}

impl Exposition {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample.
    pub fn add(&mut self, family: Family, labels: &[(&str, &str)], value: f64) {
        let known = self.families.iter().position(|(known, _)| known.name == family.name);
        let nth = known.unwrap_or_else(|| {
            self.families.push((family, String::new()));
            self.families.len() - 1
        });
        let lines = &mut self.families[nth].1;
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        // Cannot fail: it is a string that is written to.
        let _ = writeln!(lines, "{}{{{}}} {value}", family.name, labels.join(","));
    }

    /// Raises counters that were read a little too high before, so that none of them falls from one
    /// text to the next: what falls, Prometheus takes for a counter that began anew at 0.
    pub fn not_below(mut self, before: &str) -> Self {
        let series = |line: &'_ str| -> Option<(String, f64)> {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        let before: HashMap<String, f64> = before.lines().filter_map(series).collect();
        for (family, lines) in &mut self.families {
            if family.kind != Type::Counter {
                continue;
            }
            let mut raised = String::with_capacity(lines.len());
            for line in lines.lines() {
                let known = series(line).and_then(|(series, now)| {
                    let before = *before.get(&series)?;
                    (before > now && before - now <= MISREAD).then_some((series, before))
                });
                // Cannot fail: it is a string that is written to.
                let _ = match known {
                    Some((series, value)) => writeln!(raised, "{series} {value}"),
                    None => writeln!(raised, "{line}"),
                };
            }
            *lines = raised;
        }
        self
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (family, lines) in &self.families {
            let kind = match family.kind {
                Type::Counter => "counter",
                Type::Gauge => "gauge",
            };
            let Family { name, help, .. } = family;
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
        text
    }
}

/// A label's value: what would end it is escaped, and what any client of a pool could have put
/// into a name to write on a terminal is replaced.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other if other.is_control() => text.push('?'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_stand_together_under_one_head() {
        let family = |name| Family { name, help: "Help.", kind: Type::Counter };
        let mut exposition = Exposition::new();
        exposition.add(family("a_total"), &[("pool", "x")], 1.0);
        exposition.add(family("b_total"), &[("pool", "x")], 2.5);
        exposition.add(family("a_total"), &[("pool", "y\"\n\\\x1b")], 3.0);
        let expected = "# HELP a_total Help.\n# TYPE a_total counter\n\
                        a_total{pool=\"x\"} 1\na_total{pool=\"y\\\"\\n\\\\?\"} 3\n\
                        # HELP b_total Help.\n# TYPE b_total counter\nb_total{pool=\"x\"} 2.5\n";
        assert_eq!(exposition.text(), expected);
    }

    #[test]
    fn a_counter_that_was_read_too_high_does_not_fall() {
        let count = |value, kind| {
            let mut exposition = Exposition::new();
            let family = Family { name: "a_total", help: "Help.", kind };
            exposition.add(family, &[("pool", "x y")], value);
            exposition
        };
        let value = |exposition: Exposition| {
            let text = exposition.text();
            text.trim_end().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        let counter = |value| count(value, Type::Counter);
        let before = counter(5000.0).text();
        for (now, shown) in [(5001.0, 5001.0), (5000.0, 5000.0), (4999.0, 5000.0), (4.0, 4.0)] {
            assert_eq!(value(counter(now).not_below(&before)), shown, "{now}");
        }
        assert_eq!(value(counter(1.0).not_below("")), 1.0);
        assert_eq!(value(counter(1.0).not_below("of another program\n\n{} x\n")), 1.0);
        let gauge = |value| count(value, Type::Gauge);
        assert_eq!(value(gauge(4999.0).not_below(&gauge(5000.0).text())), 4999.0);
    }
}
