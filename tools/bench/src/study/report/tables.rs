//! The tables of the report: for the page, and for papers.

use super::conclusions::{self, Answer};
use super::findings::Finding;
use super::series::{Series, Sum};
use super::{distribution, words};
use crate::report::Rows;
use crate::statistics::Spread;
use crate::study::case::{Case, Group};
use crate::study::journal::Contents;

/// A table with its file's name and what it shows.
#[derive(Debug, Clone)]
pub struct Table {
    /// Without the ending.
    pub name: String,
    /// To be pasted.
    pub caption: String,
    /// Its lines.
    pub rows: Rows,
}

/// All of them.
pub fn all(
    contents: &Contents,
    series: &[Series<'_>],
    answers: &[Answer<'_>],
    findings: &[Finding],
) -> Vec<Table> {
    let source = words::source(contents);
    let table = |name: &str, rows: Rows| {
        let caption = format!("{}. {source}", rows.title);
        (!rows.rows.is_empty()).then_some(Table { name: name.into(), caption, rows })
    };
    let mut tables = vec![
        table("findings", found(findings)),
        table("conclusions", conclusions::rows(answers)),
        table("round-trips", distribution::rows(contents)),
    ];
    for group in Group::ALL {
        let rows = of_group(&members(series, group), group.heading());
        tables.push(table(group.name(), rows));
    }
    tables.push(table("memory", memory(contents)));
    tables.into_iter().flatten().collect()
}

fn found(findings: &[Finding]) -> Rows {
    let mut rows = Rows::new("Findings", ["what", "result"]);
    let line = |finding: &Finding| vec![finding.what.to_owned(), finding.result.clone()];
    rows.rows.extend(findings.iter().map(line));
    rows
}

/// What belongs to a group, with what it comes to.
pub fn members<'a, 'b>(all: &'b [Series<'a>], group: Group) -> Vec<(&'b Series<'a>, Sum)> {
    let of = all.iter().filter(|series| series.case.group == group);
    of.filter_map(|series| Some((series, series.sum()?))).collect()
}

/// A line for each figure of each case.
pub fn of_group(members: &[(&Series<'_>, Sum)], heading: &str) -> Rows {
    let columns = [
        "what",
        "where",
        "n",
        "median",
        "95 % interval of the mean",
        "97 % interval of the mean",
        "mean",
        "variance",
        "first run",
        "outliers",
        "interrupts/s",
        "switches/s",
    ];
    let mut rows = Rows::new(heading, columns);
    rows.rows.extend(members.iter().map(|(series, sum)| row(series, sum)));
    rows
}

fn row(series: &Series<'_>, sum: &Sum) -> Vec<String> {
    let unit = &series.figure.unit;
    let show = |value: f64| words::figure(value, unit);
    let odd = sum.figures.iter().filter(|(_, odd)| *odd).count();
    let size = unbroken(series.case);
    let member = if series.is_first() { "" } else { &series.figure.member };
    let emulated = if series.emulated.is_some() { " (emulated)" } else { "" };
    vec![
        [series.case.bench.as_str(), &size, member]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
        format!("{}{emulated}", words::place(series.case)),
        sum.moments.n.to_string(),
        show(sum.spread.median),
        words::interval(sum.at_95, show),
        words::interval(sum.at_97, show),
        show(sum.moments.mean),
        format!("{:.2e} {}", sum.moments.variance, squared(unit)),
        series.first.map_or_else(String::new, show),
        odd.to_string(),
        format!("{:.0}", series.interrupts),
        format!("{:.0}", series.switches),
    ]
}

/// The size of a case, in one piece.
fn unbroken(case: &Case) -> String {
    words::size(case).replace(' ', "\u{a0}")
}

fn squared(unit: &str) -> String {
    match unit {
        "" => String::new(),
        unit if unit.contains('/') => format!("({unit})\u{b2}"),
        unit => format!("{unit}\u{b2}"),
    }
}

/// What else a product says of itself.
const OF_PRODUCTS: [(&str, &str); 6] = [
    ("resident_kib", "resident KiB"),
    ("swap_kib", "swapped KiB"),
    ("minor_faults", "minor faults"),
    ("major_faults", "major faults"),
    ("dtlb_misses", "data TLB misses"),
    ("itlb_misses", "instruction TLB misses"),
];

/// Memory and faults of matrix products: medians; a word where there is no counter.
pub fn memory(contents: &Contents) -> Rows {
    let columns = ["what", "where"].into_iter().chain(OF_PRODUCTS.map(|(_, name)| name));
    let mut rows = Rows::new("Memory of matrix products", columns);
    for case in contents.study.cases.iter().filter(|case| case.bench.starts_with("dgemm")) {
        let samples = contents.samples.iter().filter(|sample| sample.case == case.name);
        let outputs: Vec<_> = samples.map(|sample| &sample.output).collect();
        let median = |(member, _): (&str, &str)| {
            let list: Vec<f64> =
                outputs.iter().filter_map(|output| output[member].as_f64()).collect();
            Spread::of(&list).map(|spread| format!("{:.0}", spread.median))
        };
        let cells = OF_PRODUCTS.map(median);
        if cells.iter().any(Option::is_some) {
            let mut row = vec![format!("{} {}", case.bench, unbroken(case)), words::place(case)];
            row.extend(cells.map(|cell| cell.unwrap_or_else(|| "no counter".into())));
            rows.rows.push(row);
        }
    }
    rows
}
