//! Figures that cannot be what they are called: a page fault of 0.1 ns is no page fault. They are
//! not measured, whatever a program printed.

use serde_json::Value;

use super::case::{Case, Figure};

/// A time that no instruction is shorter than, in seconds: a cycle at 5 GHz.
const CYCLE: f64 = 0.2e-9;
/// A rate of bytes that no machine's memory has.
const MOST_BYTES: f64 = 1e14;
/// A rate of operations that no machine has that runs one or two processes, in Mflop/s.
const MOST_MFLOPS: f64 = 1e9;
/// A ratio that nothing real has.
const MOST_RATIO: f64 = 1e6;

/// Why a figure of a run says nothing; none if it may be what it is called.
#[must_use]
pub fn objection(case: &Case, figure: &Figure, output: &Value, value: f64) -> Option<&'static str> {
    let may_be_none = figure.unit.is_empty();
    let is_time_of_faults = case.bench.starts_with("faults") && !may_be_none;
    if is_time_of_faults && output["faults"].as_f64() == Some(0.0) {
        return Some("no page faults happened: the pages were there already");
    }
    let every_page = output["faults"].as_f64().zip(output["work"].as_f64());
    if case.bench == "faults-huge" && every_page.is_some_and(|(faults, pages)| faults >= pages) {
        return Some("no huge pages were given: each small page had a fault of its own");
    }
    if !value.is_finite() || value < 0.0 || (value == 0.0 && !may_be_none) {
        return Some("the figure is zero or no number: what was to be measured did not happen");
    }
    let seconds = match figure.unit.as_str() {
        "s" => value,
        "us" => value * 1e-6,
        "ns" => value * 1e-9,
        _ => return too_fast(&figure.unit, value),
    };
    (seconds < CYCLE).then_some("the time is shorter than a cycle of the CPU")
}

fn too_fast(unit: &str, rate: f64) -> Option<&'static str> {
    let most = match unit {
        "B/s" => MOST_BYTES,
        "bit/s" => 8.0 * MOST_BYTES,
        "Mflop/s" | "Mop/s" => MOST_MFLOPS,
        _ => return None,
    };
    (rate > most).then_some("the rate is more than a machine has")
}

/// Whether a ratio may be one.
#[must_use]
pub fn is_ratio(ratio: f64) -> bool {
    ratio.is_finite() && ratio < MOST_RATIO && ratio > 1.0 / MOST_RATIO
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_is_not_measured() {
        let faults = Case { bench: "faults-segment".into(), ..Case::named("x") };
        let (ns, rate) = (Figure::cost("mean_ns", "ns"), Figure::rate("bytes_per_second", "B/s"));
        let objects = |case: &Case, figure: &Figure, output: Value, value: f64| {
            objection(case, figure, &output, value).is_some()
        };
        assert!(objects(&faults, &ns, json!({"faults": 0}), 18.0), "no fault");
        assert!(!objects(&faults, &ns, json!({"faults": 4096}), 250.0));
        assert!(objects(&faults, &ns, json!({"faults": 4096}), 0.1), "half a cycle");
        let huge = Case { bench: "faults-huge".into(), ..Case::named("x") };
        assert!(objects(&huge, &ns, json!({"faults": 512, "work": 512}), 250.0), "small pages");
        assert!(!objects(&huge, &ns, json!({"faults": 1, "work": 512}), 250.0));
        assert!(objects(&Case::named("x"), &ns, json!({}), 0.0));
        assert!(!objects(&Case::named("x"), &Figure::cost("major_faults", ""), json!({}), 0.0));
        assert!(objects(&Case::named("x"), &rate, json!({}), 1e15));
        assert!(!objects(&Case::named("x"), &rate, json!({}), 1e10));
        assert!(!is_ratio(0.0) && !is_ratio(f64::INFINITY) && is_ratio(677.0));
    }
}
