//! The page. Everything is in it: style and figures; it asks no network for anything.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::conclusions::{Answer, Meaning, Question, by_heading, choices};
use super::diagram::Diagram;
use super::findings::Finding;
use super::missing::missing;
use super::pages::pages;
use super::series::Series;
use super::strip_plot::strip_plot;
use super::{distribution, tables, words};
use crate::report::Rows;
use crate::statistics::Spread;
use crate::study::case::Group;
use crate::study::facts::Facts;
use crate::study::journal::Contents;
use crate::study::verdict::{BOOTSTRAP_FROM, Verdict};

const STYLE: &str = include_str!("style.css");

/// What a page is made of.
pub struct Parts<'a> {
    pub contents: &'a Contents,
    pub all: &'a [Series<'a>],
    pub answers: &'a [Answer<'a>],
    pub findings: &'a [Finding],
    pub diagrams: &'a [Diagram],
}

/// The whole of it.
pub fn page(parts: &Parts<'_>) -> String {
    let Parts { contents, all, answers, findings, diagrams } = parts;
    let missing = missing(contents);
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "vshmem bench: what virtualisation and vshmem cost and gain" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "What virtualisation and vshmem cost and gain" }
                    (summary(contents))
                    nav {
                        a href="#findings" { "Findings" }
                        a href="#figures" { "Figures" }
                        a href="#conclusions" { "Comparisons" }
                        a href="#tables" { "Tables" }
                        @if !missing.is_empty() { a href="#missing" { "Not measured" } }
                        a href="#method" { "Method" }
                    }
                    (warnings(contents, all))
                }
                (found(findings, answers))
                @if let Some(session) = contents.sessions.last() { (facts(&session.facts)) }
                (figures(diagrams))
                (conclusions(contents, answers))
                (tables_of(contents, all))
                (pages_by_node(contents))
                @if !missing.is_empty() { (not_measured(&missing)) }
                (method(contents, answers))
            }
        }
    };
    document.into_string()
}

/// The headline: sentences, and how many comparisons say what.
fn found(findings: &[Finding], answers: &[Answer<'_>]) -> Markup {
    let meant =
        |meaning: Meaning| answers.iter().filter(|answer| answer.meaning() == meaning).count();
    let having = |verdicts: &[Verdict]| {
        answers.iter().filter(|answer| verdicts.contains(&answer.ratio.verdict)).count()
    };
    let tiles = [
        (meant(Meaning::Gain), "vshmem is faster", "gain"),
        (meant(Meaning::Loss), "vshmem is slower", "loss"),
        (
            having(&[Verdict::NoDifferenceShown, Verdict::NotAfterCorrection]),
            "no difference shown",
            "open",
        ),
        (meant(Meaning::Context), "the place differs, without vshmem", "context"),
        (having(&[Verdict::TooFew, Verdict::NotMeasured]), "undecided", "open"),
        (having(&[Verdict::Emulated]), "emulated: no conclusion", "open"),
    ];
    html! {
        section id="findings" {
            h2 { "Findings" }
            @if answers.is_empty() { p { "There are no two cases to compare yet." } }
            ul class="headlines" {
                @for finding in findings {
                    li class=(colour(finding.meaning)) {
                        span class="what" { (finding.what) }
                        span class="result" { (finding.result) }
                    }
                }
            }
            div class="tiles" {
                @for (count, words, class) in tiles {
                    @if count > 0 { div class={ "tile " (class) } { b { (count) } span { (words) } } }
                }
            }
            p class="soft" {
                "Each comparison names first what is judged, and says how many times as fast it is as the second: above 1 \
                 it is faster. Verdicts are by rule from 95 % intervals, and hold after a correction for the "
                (answers.len()) " comparisons of this page (Benjamini and Hochberg: at most 5 % of them are expected to \
                 be wrong)."
            }
            p class="soft" {
                "A thread of vshmem's looks at memory for about as long as a sleep costs before it sleeps; one at a \
                 kernel's semaphore or queue sleeps at once: where this page says spinning against sleeping, that is \
                 the difference. raw: both sides set one flag in shared memory in turn, which is what the hardware can \
                 do. sync: the papers' P and V in shared memory by loads and stores alone, without any library."
            }
        }
    }
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
            @if let Some(guests) = &facts.guests { dt { "Guests" } dd { (guests) } }
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

/// The class that gives a meaning its colour.
fn colour(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Gain => "gain",
        Meaning::Loss => "loss",
        Meaning::Context => "context",
        Meaning::Open => "open",
    }
}

fn conclusions(contents: &Contents, answers: &[Answer<'_>]) -> Markup {
    html! {
        section id="conclusions" {
            h2 { "All comparisons" }
            p class="soft" {
                "Each chip has the size, how many times as fast the first is as the second by medians, and the 95 % \
                 interval of that. Where the interval reaches across 1, no difference is shown."
            }
            p class="legend" {
                span class="chip gain" { i { "vshmem faster" } } " "
                span class="chip loss" { i { "vshmem slower" } } " "
                span class="chip context" { i { "the place differs, without vshmem" } } " "
                span class="chip open" { i { "no difference shown" } }
            }
            @for question in Question::ALL {
                @let asked = answers.iter().filter(|answer| answer.question == question);
                @let of: Vec<Answer<'_>> = asked.cloned().collect();
                @if !of.is_empty() {
                    h3 { (question.words()) }
                    ul class="comparisons" {
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
        }
    }
}

fn chip(answer: &Answer<'_>) -> Markup {
    let ratio = answer.ratio;
    let p = ratio.adjusted_p.map_or_else(String::new, words::probability);
    let title = format!("{} pairs; adjusted p {p}", ratio.pairs);
    html! {
        span class={ "chip " (colour(answer.meaning())) } title=(title) {
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
    let (trips, others): (Vec<&Diagram>, Vec<&Diagram>) = large.into_iter().partition(|diagram| {
        diagram.name.starts_with("latency") || diagram.name.starts_with("distribution")
    });
    html! {
        section id="figures" {
            h2 { "Figures" }
            @if diagrams.is_empty() { p { "There are no samples yet." } }
            @for diagram in trips { (figure(diagram)) }
            @if !small.is_empty() {
                h3 { "Time of one round over the size, by model" }
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
            figcaption { (diagram.caption) }
        }
    }
}

fn tables_of(contents: &Contents, all: &[Series<'_>]) -> Markup {
    let trips = distribution::rows(contents);
    html! {
        section id="tables" {
            h2 { "Tables" }
            p class="soft" {
                "The first run in a place, when a guest is still cold, does not count. n counts those that do. Intervals are Student's, of the mean. Every run counts; those outside Tukey's fences \
                 (outliers) are red on the strip in the last column, which goes from the smallest figure to the largest. \
                 The same tables for papers: " code { "tables/*.tex" } ", for programs: " code { "summary.csv" } "."
            }
            @if !trips.rows.is_empty() { h3 { (trips.title) } (table(&trips, &[])) }
            @for group in Group::ALL {
                @let members = tables::members(all, group);
                @if !members.is_empty() {
                    @let rows = tables::of_group(&members, group.heading());
                    @let strips = members.iter().map(|(_, sum)| strip_plot(&sum.figures));
                    @let strips: Vec<Markup> = strips.collect();
                    h3 { (rows.title) }
                    (table(&rows, &strips))
                }
            }
            @let memory = tables::memory(contents);
            @if !memory.rows.is_empty() { h3 { (memory.title) } (table(&memory, &[])) }
        }
    }
}

/// With a plot at the end of each line, if there are plots.
fn table(rows: &Rows, plots: &[Markup]) -> Markup {
    html! {
        div class="scroll" tabindex="0" { table {
            thead { tr {
                @for (nth, column) in rows.columns.iter().enumerate() {
                    th class=[(nth == 1).then_some("left")] { (column) }
                }
                @if !plots.is_empty() { th class="left" { "runs" } }
            } }
            tbody {
                @for (nth, row) in rows.rows.iter().enumerate() { tr {
                    @for (nth, cell) in row.iter().enumerate() {
                        td class=[(nth == 1).then_some("left")] { (cell) }
                    }
                    @if let Some(plot) = plots.get(nth) { td class="left" { (plot) } }
                } }
            }
        } }
    }
}

/// Where a plan was followed.
fn pages_by_node(contents: &Contents) -> Markup {
    let rows = pages(contents);
    html! {
        @if !rows.rows.is_empty() {
            section id="pages" {
                h2 { (rows.title) }
                (table(&rows, &[]))
            }
        }
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

fn method(contents: &Contents, answers: &[Answer<'_>]) -> Markup {
    let study = &contents.study;
    let (seed, repetitions) = (study.seed, study.repetitions);
    let corrected = |verdict| answers.iter().filter(|one| one.ratio.verdict == verdict).count();
    html! {
        section id="method" {
            h2 { "Method" }
            ul {
                li { "A repetition has every case once, in a random order that the seed determines; ratios are made of runs of the same repetition, so that what moved the whole machine is not counted as a difference." }
                li { "Each case is run once before, without being counted; ping-pongs have rounds in each run that do not count." }
                li { "To be measured again: " code { "vshmem bench run DIR --seed " (seed) " --repetitions " (repetitions) } " (extent " (study.extent) ")." }
                li { "The ratio is that of the medians. From " (BOOTSTRAP_FROM) " pairs on its interval is the percentile bootstrap over pairs (2000 resamples); with fewer, Student's of the logarithms of the ratios within pairs, back from logarithms. Two samples of the same distribution show no difference in 95 of 100 cases." }
                li { "One in twenty comparisons of equal things lies outside its 95 % interval. So the values of p (Student's test of the logarithms of the ratios within pairs) of the " (answers.len()) " comparisons are adjusted together by Benjamini and Hochberg's rule; a difference counts when its own interval does not reach across 1 and its adjusted p is below 0.05. By its own interval alone, " (corrected(Verdict::NotAfterCorrection)) " more would count; they are named `no difference shown after correction'." }
                li { "A figure that cannot be what it is called (a page fault when none happened, a time shorter than a cycle of the CPU, a ratio beyond a million) is not measured." }
                li { "Words: an OS kernel is an operating system's; `one OS kernel' is this machine's own, without guests. Guests are virtual machines, each with an OS kernel of its own. A computation that is measured is called a program, a product or a dwarf." }
                li { "No run is discarded. A failed run gives no figure; it is named above if a case has no other." }
                li { "Figures of emulated guests are marked, and nothing is concluded from them. User Mode Linux runs programs on the CPU itself, but its system calls take some hundred times as long as an OS kernel's on the CPU: what goes through a guest's OS kernel there (network, System V IPC of the guest, page faults, writes) is the price of that, not of virtualisation by hardware." }
            }
            @if contents.sessions.len() > 1 {
                h3 { "Sessions" }
                ul { @for session in &contents.sessions { li { (session.facts.date) ", load " (session.facts.load) } } }
            }
        }
    }
}
