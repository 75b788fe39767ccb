//! Two studies beside each other.

use super::series::{self, Series};
use super::words;
use crate::report::Rows;
use crate::study::case::Better;
use crate::study::journal::Contents;
use crate::study::t_distribution;
use crate::study::verdict::Verdict;

/// What the second is of the first, for each case that both have.
#[must_use]
pub fn compared(one: &Contents, other: &Contents) -> Rows {
    let (first, second) = (series::all(one), series::all(other));
    let title =
        "B / A: ratio of medians (95 % interval of the ratio of geometric means), verdict on B";
    let mut rows = Rows::new(title, ["case", "A", "B", "B / A", "interval", "n", "verdict"]);
    for b in second.iter().filter(|series| series.is_first()) {
        let Some(a) = first.iter().find(|a| a.is_first() && a.case == b.case) else { continue };
        let (Some(sum_a), Some(sum_b)) = (a.sum(), b.sum()) else { continue };
        let unit = &b.figure.unit;
        let interval = t_distribution::unpaired_ratio(&b.list(), &a.list(), 0.95);
        rows.rows.push(vec![
            b.case.name.clone(),
            words::figure(sum_a.spread.median, unit),
            words::figure(sum_b.spread.median, unit),
            crate::quotient(&[&b.list()], &[&a.list()]).map_or_else(String::new, words::factor),
            words::factors(interval),
            format!("{} and {}", sum_a.moments.n, sum_b.moments.n),
            verdict(a, b, interval).words().into(),
        ]);
    }
    rows
}

fn verdict(a: &Series<'_>, b: &Series<'_>, interval: Option<crate::Interval>) -> Verdict {
    if a.emulated.or(b.emulated).is_some() {
        return Verdict::Emulated;
    }
    let better: Better = b.figure.better;
    interval.map_or(Verdict::TooFew, |interval| crate::study::verdict::judge(interval, better))
}

/// In what the machines of two studies differ.
#[must_use]
pub fn machines_apart(one: &Contents, other: &Contents) -> Vec<String> {
    let (Some(a), Some(b)) = (one.sessions.last(), other.sessions.last()) else {
        return Vec::new();
    };
    let facts = [
        ("CPU", &a.facts.cpu, &b.facts.cpu),
        ("CPUs", &a.facts.cpus.to_string(), &b.facts.cpus.to_string()),
        ("kernel", &a.facts.kernel, &b.facts.kernel),
        ("vshmem", &a.facts.version, &b.facts.version),
    ];
    facts
        .into_iter()
        .filter(|(_, one, other)| one != other)
        .map(|(name, one, other)| format!("{name}: A has {one}, B has {other}"))
        .collect()
}
