//! The page. Everything is in it: style and figures; it asks no network for anything.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::conclusions::{Answer, Question, by_heading, choices};
use super::figures::Diagram;
use super::missing::missing;
use super::series::{Series, Sum};
use super::strip_plot::strip_plot;
use super::words;
use crate::statistics::Spread;
use crate::study::case::{Case, Group};
use crate::study::facts::Facts;
use crate::study::journal::Contents;
use crate::study::verdict::{BOOTSTRAP_FROM, Verdict};

const STYLE: &str = include_str!("style.css");

/// The whole of it.
pub fn page(
    contents: &Contents,
    all: &[Series<'_>],
    answers: &[Answer<'_>],
    diagrams: &[Diagram],
) -> String {
    let missing = missing(contents);
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "vshmem bench: what virtualisation and vshmem cost and gain" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "What virtualisation and vshmem cost and gain" }
                    (summary(contents))
                    nav {
                        a href="#conclusions" { "Conclusions" }
                        a href="#figures" { "Figures" }
                        a href="#tables" { "Tables" }
                        @if !missing.is_empty() { a href="#missing" { "Not measured" } }
                        a href="#method" { "Method" }
                    }
                    @if let Some(session) = contents.sessions.last() { (facts(&session.facts)) }
                    (warnings(contents, all))
                }
                (conclusions(contents, answers))
                (figures(diagrams))
                (tables(contents, all))
                @if !missing.is_empty() { (not_measured(&missing)) }
                (method(contents))
            }
        }
    };
    document.into_string()
}

fn summary(contents: &Contents) -> Markup {
    let study = &contents.study;
    let whole = study.cases.len() * study.repetitions as usize;
    let date = contents.sessions.first().map(|session| session.facts.date.as_str());
    html! {
        p class="soft" {
            (contents.samples.len()) " runs of " (whole) " (" (study.cases.len()) " cases, up to "
            (study.repetitions) " repetitions each)"
            @if let Some(date) = date { ", begun " (date) }
            @if contents.sessions.len() > 1 { ", in " (contents.sessions.len()) " sessions" }
            "; extent: " (study.extent) ", seed " (study.seed) "."
        }
    }
}

fn facts(facts: &Facts) -> Markup {
    let none = "none found";
    html! {
        dl class="facts" {
            dt { "CPU" } dd { (facts.cpu) ", " (facts.cpus) " CPUs, governor " (facts.governor.as_deref().unwrap_or(none)) }
            dt { "Memory" } dd { (facts.memory_mib) " MiB, large pages " (facts.huge_pages.as_deref().unwrap_or(none)) }
            dt { "Kernel" } dd { (facts.kernel) }
            dt { "Runs on" } dd { (facts.hypervisor.as_deref().unwrap_or("no hypervisor that says so")) "; accelerator for guests: " (facts.accelerator.as_deref().unwrap_or(none)) }
            dt { "Load" } dd { (facts.load) "; taken by other machines since boot: " (format!("{:.2}", facts.steal_percent)) " %" }
            dt { "vshmem" } dd { (facts.version) }
        }
    }
}

fn warnings(contents: &Contents, all: &[Series<'_>]) -> Markup {
    let busy = contents.sessions.iter().any(|session| session.facts.busy);
    let emulated = all.iter().find_map(|series| series.emulated);
    let stolen: Vec<f64> =
        contents.samples.iter().map(|sample| sample.around.steal_percent).collect();
    let stolen = Spread::of(&stolen).map_or(0.0, |spread| spread.upper_quartile);
    html! {
        @if busy {
            p class="warning" { "The machine was busy with other work when this was begun: do not rely on these figures." }
        }
        @if stolen > 5.0 {
            p class="warning" { "In a quarter of the runs more than " (format!("{stolen:.0}")) " % of CPU time went to other machines on the same host." }
        }
        @if let Some(emulated) = emulated {
            p class="warning" { "Some places are emulated (" (emulated) "): their figures are marked, and nothing is concluded from them." }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "chip faster",
        Verdict::Slower => "chip slower",
        _ => "chip",
    }
}

fn conclusions(contents: &Contents, answers: &[Answer<'_>]) -> Markup {
    let count = |verdict| answers.iter().filter(|answer| answer.ratio.verdict == verdict).count();
    let tiles = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::NoDifferenceShown,
        Verdict::TooFew,
        Verdict::Emulated,
    ];
    html! {
        section id="conclusions" {
            h2 { "Conclusions" }
            p class="soft" {
                "Drawn by rule: each chip has the size, the ratio of medians of the first to the second, and its 95 % \
                 interval. Below 1 a time is shorter; rates (Mflop/s, B/s) are better above 1. Where the interval \
                 reaches across 1, no difference is shown."
            }
            div class="tiles" {
                @for verdict in tiles {
                    @if count(verdict) > 0 {
                        div class="tile" { b { (count(verdict)) } span { (verdict.words()) } }
                    }
                }
            }
            @for question in Question::ALL {
                @let asked = answers.iter().filter(|answer| answer.question == question);
                @let of: Vec<Answer<'_>> = asked.cloned().collect();
                @if !of.is_empty() {
                    h3 { (question.words()) }
                    ul class="findings" {
                        @for (heading, of) in by_heading(&of) {
                            li {
                                span class="what" { (heading) }
                                span class="chips" { @for answer in of { (chip(answer)) } }
                            }
                        }
                    }
                }
            }
            (chosen(contents))
            @if answers.is_empty() { p { "There are no two cases to compare yet." } }
        }
    }
}

fn chip(answer: &Answer<'_>) -> Markup {
    let ratio = answer.ratio;
    let title = format!("{} pairs", ratio.pairs);
    html! {
        span class=(class(ratio.verdict)) title=(title) {
            (words::size(answer.subject.case)) " " b { (words::factor(ratio.ratio)) }
            @if ratio.interval.is_some() { " (" (words::factors(ratio.interval)) ")" }
            " " i { (ratio.verdict.words()) }
        }
    }
}

/// What the autotuner chose where.
fn chosen(contents: &Contents) -> Markup {
    let choices = choices(contents);
    let [(_, one, ..), (_, other, ..)] = &choices[..] else { return html! {} };
    html! {
        h3 { "Does a guest tune a matrix product otherwise?" }
        p { @if one == other { "Both places chose the same blocking most often." } @else { "The places chose different blockings." } }
        ul {
            @for (place, choice, count, all) in &choices {
                li { (place.words()) ": " code { (choice) } " in " (count) " of " (all) " runs" }
            }
        }
    }
}

fn figures(diagrams: &[Diagram]) -> Markup {
    let (small, large): (Vec<&Diagram>, Vec<&Diagram>) =
        diagrams.iter().partition(|diagram| diagram.small);
    let (latency, others): (Vec<&Diagram>, Vec<&Diagram>) =
        large.into_iter().partition(|diagram| diagram.name.starts_with("latency"));
    html! {
        section id="figures" {
            h2 { "Figures" }
            @if diagrams.is_empty() { p { "There are no samples yet." } }
            @for diagram in latency { (figure(diagram)) }
            @if !small.is_empty() {
                h3 { "Time of one round over the size, by model" }
                p class="soft" { "The same kernel and the same division of the work in all models. Medians; bars from the lower to the upper quartile." }
                div class="small" { @for diagram in small { (figure(diagram)) } }
            }
            @for diagram in others { (figure(diagram)) }
        }
    }
}

fn figure(diagram: &Diagram) -> Markup {
    html! {
        figure id={ "figure-" (diagram.name) } {
            h3 { (diagram.title) }
            div class="wide" { (PreEscaped(&diagram.wide)) }
            div class="narrow" { (PreEscaped(&diagram.narrow)) }
            @if !diagram.caption.is_empty() { figcaption { (diagram.caption) } }
        }
    }
}

fn tables(contents: &Contents, all: &[Series<'_>]) -> Markup {
    html! {
        section id="tables" {
            h2 { "Tables" }
            p class="soft" {
                "The first run in a place, when a guest is still cold, does not count. n counts those that do. Intervals are Student's, of the mean. Every run counts; those outside Tukey's fences \
                 are red on the strip in the last column, which goes from the smallest figure to the largest."
            }
            @for group in Group::ALL {
                @let of = all.iter().filter(|series| series.case.group == group);
                @let of: Vec<&Series<'_>> = of.collect();
                @if !of.is_empty() {
                    h3 { (group.heading()) }
                    div class="scroll" { table {
                        thead { tr {
                            th { "what" } th class="left" { "where" } th { "n" } th { "median" } th { "mean" }
                            th { "95 % interval" } th { "97 % interval" } th { "variance" } th { "first run" } th { "odd" }
                            th { "interrupts/s" } th class="left" { "runs" }
                        } }
                        tbody {
                            @for series in of {
                                @if let Some(sum) = series.sum() { (row(series, &sum)) }
                            }
                        }
                    } }
                }
            }
            (memory(contents))
        }
    }
}

/// What else a product says of itself.
const BESIDE: [(&str, &str); 6] = [
    ("resident_kib", "resident KiB"),
    ("swap_kib", "swapped KiB"),
    ("minor_faults", "minor faults"),
    ("major_faults", "major faults"),
    ("dtlb_misses", "data TLB misses"),
    ("itlb_misses", "instruction TLB misses"),
];

/// Memory and faults of matrix products: medians; nothing where there is no counter.
fn memory(contents: &Contents) -> Markup {
    let cases = contents.study.cases.iter().filter(|case| case.bench.starts_with("dgemm"));
    let rows: Vec<(&Case, Vec<String>)> = cases
        .filter_map(|case| {
            let samples = contents.samples.iter().filter(|sample| sample.case == case.name);
            let outputs: Vec<_> = samples.map(|sample| &sample.output).collect();
            let median = |(member, _): (&str, &str)| {
                let list: Vec<f64> =
                    outputs.iter().filter_map(|output| output[member].as_f64()).collect();
                Spread::of(&list).map_or_else(String::new, |spread| format!("{:.0}", spread.median))
            };
            let cells = BESIDE.map(median).to_vec();
            cells.iter().any(|cell| !cell.is_empty()).then_some((case, cells))
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h3 { "Memory of matrix products" }
            div class="scroll" { table {
                thead { tr {
                    th { "what" } th class="left" { "where" }
                    @for (_, name) in BESIDE { th { (name) } }
                } }
                tbody { @for (case, cells) in rows { tr {
                    td { (case.bench) " " (unbroken(case)) } td class="left" { (words::place(case)) }
                    @for cell in cells { td { @if cell.is_empty() { "no counter" } @else { (cell) } } }
                } } }
            } }
        }
    }
}

fn row(series: &Series<'_>, sum: &Sum) -> Markup {
    let unit = &series.figure.unit;
    let show = |value: f64| words::figure(value, unit);
    let odd = sum.figures.iter().filter(|(_, odd)| *odd).count();
    html! {
        tr {
            td { (series.case.bench) " " (unbroken(series.case)) @if !series.is_first() { ", " (series.figure.member) } }
            td class="left" {
                (words::place(series.case)) @if series.emulated.is_some() { " (emulated)" }
            }
            td { (sum.moments.n) }
            td { (show(sum.spread.median)) }
            td { (show(sum.moments.mean)) }
            td { (words::interval(sum.at_95, show)) }
            td { (words::interval(sum.at_97, show)) }
            td { (format!("{:.2e} {}", sum.moments.variance, squared(unit))) }
            td { (series.first.map_or_else(String::new, show)) }
            td { (odd) }
            td { (format!("{:.0}", series.interrupts)) }
            td class="left" { (strip_plot(&sum.figures)) }
        }
    }
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

fn not_measured(missing: &[(String, Vec<String>)]) -> Markup {
    html! {
        section id="missing" {
            h2 { "Not measured" }
            ul {
                @for (why, cases) in missing {
                    li { (why) br; span class="soft" { (cases.len()) " cases: " (cases.join(", ")) } }
                }
            }
        }
    }
}

fn method(contents: &Contents) -> Markup {
    html! {
        section id="method" {
            h2 { "Method" }
            ul {
                li { "A repetition has every case once, in a random order that the seed determines; ratios are made of runs of the same repetition, so that what moved the whole machine is not counted as a difference." }
                li { "Each case is run once before, without being counted; ping-pongs have rounds in each run that do not count." }
                li { "The ratio is that of the medians. From " (BOOTSTRAP_FROM) " pairs on its interval is the percentile bootstrap over pairs (2000 resamples); with fewer, Student's of the logarithms of the ratios within pairs, back from logarithms. Two samples of the same distribution show no difference in 95 of 100 cases." }
                li { "No run is discarded. A failed run gives no figure; it is named above if a case has no other." }
                li { "Figures of emulated guests are marked, and nothing is concluded from them. User Mode Linux runs programs on the CPU itself, but its system calls take some hundred times as long as a kernel's: what goes through a guest's kernel there (network, kernel IPC, page faults, writes) is the price of that, not of virtualisation by hardware." }
            }
            @if contents.sessions.len() > 1 {
                h3 { "Sessions" }
                ul { @for session in &contents.sessions { li { (session.facts.date) ", load " (session.facts.load) } } }
            }
        }
    }
}
