//! Cases and figures in words.

use crate::bootstrap::Interval;
use crate::report::{bytes, duration};
use crate::study::case::{Case, Group};

/// A figure with its unit.
pub fn figure(value: f64, unit: &str) -> String {
    if value < 0.0 {
        return format!("-{}", figure(-value, unit));
    }
    match unit {
        "ns" => duration(value),
        "us" => duration(value * 1e3),
        "s" => duration(value * 1e9),
        "" => three_digits(value),
        "Mflop/s" | "Mop/s" => format!("{} {unit}", three_digits(value)),
        unit => {
            const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
            let step = STEPS.into_iter().find(|(step, _)| value >= *step);
            let (step, prefix) = step.unwrap_or((1.0, ""));
            format!("{} {prefix}{unit}", three_digits(value / step))
        }
    }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 0.01 => format!("{value:.2e}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Both ends.
pub fn interval(interval: Option<Interval>, show: impl Fn(f64) -> String) -> String {
    interval.map_or_else(String::new, |one| format!("{} .. {}", show(one.low), show(one.high)))
}

/// A ratio. Far below 1 it is easier to read the other way round.
pub fn factor(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 {
        format!("1/{}", three_digits(1.0 / ratio))
    } else {
        crate::report::factor(ratio)
    }
}

/// A ratio's interval.
pub fn factors(ratio: Option<Interval>) -> String {
    interval(ratio, factor)
}

/// What the size of a case is called.
pub fn size(case: &Case) -> String {
    match (case.group, case.bench.as_str(), case.n) {
        (_, _, 0) => String::new(),
        (Group::Micro, _, n) | (_, "writes" | "writes-disk" | "fio" | "faults-malloc", n) => {
            bytes(n)
        }
        (_, "noise", n) => duration(n as f64),
        (_, name, n) if name.starts_with("faults") => bytes(n),
        (_, "iperf3", n) => format!("{n} guests"),
        (_, _, n) => format!("n = {n}"),
    }
}

/// Where and how.
pub fn place(case: &Case) -> String {
    match case.model.name() {
        "none" => case.environment.words().to_owned(),
        model => format!("{model}, {}", case.environment.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!(figure(480.4, "ns"), "480 ns");
        assert_eq!(figure(0.002, "s"), "2.00 ms");
        assert_eq!(figure(1234.5, "Mflop/s"), "1234 Mflop/s");
        assert_eq!(figure(2.5e9, "B/s"), "2.50 GB/s");
        assert_eq!(figure(0.99, ""), "0.99");
        assert_eq!(figure(0.0, "B/s"), "0 B/s");
        assert_eq!(figure(-1500.0, "ns"), "-1.50 us");
        assert_eq!([0.02, 0.5, 300.0].map(factor), ["1/50.0", "0.50x", "300x"]);
    }
}
