//! Prometheus' text format: families of samples, each with a line of help and its type.

use std::fmt::Write as _;

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
}
