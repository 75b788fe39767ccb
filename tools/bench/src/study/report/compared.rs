//! Two studies, case by case, and how far they agree.

use super::conclusions::{Answer, answers};
use super::series::{self, Series};
use super::words;
use crate::Interval;
use crate::report::Rows;
use crate::study::case::Better;
use crate::study::journal::Contents;
use crate::study::multiplicity::benjamini_hochberg;
use crate::study::t_distribution;
use crate::study::verdict::{Ratio, Verdict, correct, judge};

/// How many times as fast each case is in the second, for each that both have; and a sentence about
/// all.
#[must_use]
pub fn compared(one: &Contents, other: &Contents) -> (Rows, String) {
    let (first, second) = (series::all(one), series::all(other));
    let title = "How many times as fast B is as A (95 % interval of the ratio of geometric means)";
    let columns = ["case", "A", "B", "times as fast", "interval", "n", "adjusted p", "verdict"];
    let mut rows = Rows::new(title, columns);
    let mut pairs: Vec<(&Series<'_>, &Series<'_>, Ratio)> = Vec::new();
    for b in second.iter().filter(|series| series.is_first()) {
        let Some(a) = first.iter().find(|a| a.is_first() && a.case == b.case) else { continue };
        pairs.extend(speed(b, a).map(|ratio| (a, b, ratio)));
    }
    correct(&mut pairs.iter_mut().map(|pair| &mut pair.2).collect::<Vec<_>>(), benjamini_hochberg);
    for (a, b, ratio) in &pairs {
        let (Some(sum_a), Some(sum_b)) = (a.sum(), b.sum()) else { continue };
        let unit = &b.figure.unit;
        rows.rows.push(vec![
            b.case.name.clone(),
            words::figure(sum_a.spread.median, unit),
            words::figure(sum_b.spread.median, unit),
            words::factor(ratio.ratio),
            words::factors(ratio.interval),
            format!("{} and {}", sum_a.moments.n, sum_b.moments.n),
            ratio.adjusted_p.map_or_else(String::new, words::probability),
            ratio.verdict.words().into(),
        ]);
    }
    let ratios: Vec<Ratio> = pairs.into_iter().map(|pair| pair.2).collect();
    (rows, agreement(&ratios))
}

/// How many cases of both agree.
fn agreement(ratios: &[Ratio]) -> String {
    let count = |verdict| ratios.iter().filter(|ratio| ratio.verdict == verdict).count();
    let within =
        |most: f64| ratios.iter().filter(|one| one.ratio.max(1.0 / one.ratio) <= most).count();
    format!(
        "{} of {} cases are faster in B and {} slower, after Benjamini and Hochberg's correction; the medians of {} are \
         within 5 % of each other, of {} within 20 %.",
        count(Verdict::Faster),
        ratios.len(),
        count(Verdict::Slower),
        within(1.05),
        within(1.2)
    )
}

/// Of lists that have no pairs.
fn speed(b: &Series<'_>, a: &Series<'_>) -> Option<Ratio> {
    let (over, under) = match b.figure.better {
        Better::Less => (a.list(), b.list()),
        Better::More => (b.list(), a.list()),
    };
    let ratio = crate::quotient(&[&over], &[&under])?;
    let interval: Option<Interval> = t_distribution::unpaired_ratio(&over, &under, 0.95);
    let verdict = interval.map_or(Verdict::TooFew, |interval| judge(interval, Better::More));
    let p = t_distribution::unpaired_p(&over, &under);
    let pairs = over.len().min(under.len());
    let whole = Ratio { ratio, interval, pairs, p, adjusted_p: None, verdict };
    let emulated = a.emulated.or(b.emulated).is_some();
    Some(if emulated { whole.emulated() } else { whole })
}

/// The conclusions of which two studies judge differently; and a sentence about all. Each study
/// compares what took turns within it, so these can agree where the figures do not.
#[must_use]
pub fn conclusions_apart(one: &Contents, other: &Contents) -> (Rows, String) {
    let (first, second) = (series::all(one), series::all(other));
    let (first, second) = (answers(&first, one.study.seed), answers(&second, other.study.seed));
    let title = "Conclusions that differ: how many times as fast the first is as the second";
    let columns = ["what", "size", "A", "interval", "verdict", "B", "interval", "verdict"];
    let mut rows = Rows::new(title, columns);
    let (mut both, mut opposite) = (0, 0);
    for b in &second {
        let Some(a) = first.iter().find(|a| is_same_question(a, b)) else { continue };
        both += 1;
        let (shown_a, shown_b) = (shown(a.ratio.verdict), shown(b.ratio.verdict));
        if shown_a == shown_b {
            continue;
        }
        opposite += usize::from(shown_a.is_some() && shown_b.is_some());
        let mut row = vec![b.heading(), words::size(b.subject.case)];
        for ratio in [a.ratio, b.ratio] {
            row.push(words::factor(ratio.ratio));
            row.push(words::factors(ratio.interval));
            row.push(ratio.verdict.words().into());
        }
        rows.rows.push(row);
    }
    let differ = rows.rows.len();
    let sentence = format!(
        "{} of {both} conclusions are the same in A and B; {opposite} are opposite; {} are shown in one of the two only.",
        both - differ,
        differ - opposite
    );
    (rows, sentence)
}

fn is_same_question(a: &Answer<'_>, b: &Answer<'_>) -> bool {
    a.question == b.question
        && a.subject.case.name == b.subject.case.name
        && a.rival.case.name == b.rival.case.name
}

/// A verdict that says which is faster.
fn shown(verdict: Verdict) -> Option<Verdict> {
    matches!(verdict, Verdict::Faster | Verdict::Slower).then_some(verdict)
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
