//! Cases and figures in words.

use crate::bootstrap::Interval;
use crate::report::{bytes, duration};
use crate::study::case::{Case, Group, Model};
use crate::study::journal::Contents;

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

/// A number as people read it.
pub fn three_digits(value: f64) -> String {
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

/// On what it was measured, in a sentence for captions.
pub fn source(contents: &Contents) -> String {
    let study = &contents.study;
    let Some(session) = contents.sessions.last() else { return String::new() };
    let facts = &session.facts;
    let busy = if contents.sessions.iter().any(|session| session.facts.busy) {
        "; the machine was busy with other work"
    } else {
        ""
    };
    let day = facts.date.split('T').next().unwrap_or_default();
    let most = contents.samples.iter().map(|sample| sample.repetition).max().unwrap_or(0);
    let guests =
        facts.guests.as_deref().map_or_else(String::new, |what| format!("; guests: {what}"));
    format!(
        "Measured on {}, {} CPUs, {}, {}{guests}; {most} interleaved repetitions, seed {}; {day}, vshmem {}{busy}.",
        facts.cpu,
        facts.cpus,
        facts.kernel,
        facts.hypervisor.as_deref().map_or("no hypervisor".into(), |by| format!("under {by}")),
        study.seed,
        facts.version,
    )
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
    match case.model {
        Model::None => case.environment.words().to_owned(),
        model => format!("{}, {}", model.words(), case.environment.words()),
    }
}

/// A number of an axis: round, without zeros at its end.
pub fn tick(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e4 => format!("{}k", value / 1e3),
        value if value < 1e-4 && value > 0.0 => format!("{value:e}"),
        value => format!("{value}"),
    }
}

/// A time of an axis, given in nanoseconds: `200 ns`, `1 us`.
pub fn tick_of_time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_decimals(value))
}

/// A rate of an axis, with its unit.
pub fn tick_of_rate(value: f64, unit: &str) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let step = STEPS.into_iter().find(|(step, _)| value >= *step);
    let (step, prefix) = step.unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", three_decimals(value / step))
}

fn three_decimals(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// How likely something is.
pub fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".into(),
        p if p < 0.1 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

/// A speed as a reader says it: `419 times faster`, `1.07 times slower`, `as fast`.
pub fn times(speed: f64) -> String {
    let number = |x: f64| if x < 10.0 { format!("{x:.2}") } else { three_digits(x) };
    match speed {
        speed if (0.995..1.005).contains(&speed) => "as fast".into(),
        speed if speed > 1.0 => format!("{} times faster", number(speed)),
        speed => format!("{} times slower", number(1.0 / speed)),
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
        assert_eq!([0.0, 0.5, 200.0, 20_000.0].map(tick), ["0", "0.5", "200", "20k"]);
        assert_eq!([1e3, 1.5e6, 200.0].map(tick_of_time), ["1 us", "1.5 ms", "200 ns"]);
        assert_eq!(tick_of_rate(5e9, "B/s"), "5 GB/s");
        assert_eq!([1e-9, 0.02, 0.5].map(probability), ["< 0.001", "0.020", "0.50"]);
        assert_eq!(
            [419.0, 0.935, 1.001].map(times),
            ["419 times faster", "1.07 times slower", "as fast"]
        );
    }
}
