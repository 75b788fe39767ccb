//! Which figures there are: the counterparts of the papers'.

use super::chart::{Curves, Intervals, Line, NARROW, Point, SMALL, Scale};
use super::conclusions::{Answer, Meaning, Question};
use super::diagram::{Diagram, diagram};
use super::distribution;
use super::series::{Series, firsts};
use super::words;
use crate::report::bytes;
use crate::study::case::{Group, Model};
use crate::study::environment::Environment;
use crate::study::journal::Contents;

/// All figures that the samples have.
pub fn all(contents: &Contents, series: &[Series<'_>], answers: &[Answer<'_>]) -> Vec<Diagram> {
    let mut diagrams = Vec::new();
    diagrams.extend(latency(series));
    diagrams.extend(distribution::diagrams(contents));
    diagrams.extend(dwarfs(series));
    diagrams.extend(overhead(answers));
    diagrams.extend(products(series));
    diagrams.extend(cliffs(series));
    diagrams.extend(writes(series));
    diagrams.extend(noise(contents));
    let source = words::source(contents);
    for diagram in &mut diagrams {
        diagram.caption = format!("{}. {} {source}", diagram.title, diagram.caption);
    }
    diagrams
}

/// A line through the medians of those series, with their 95 % intervals about the mean cut to what
/// was seen.
fn line<'a>(
    name: String,
    of: impl Iterator<Item = &'a Series<'a>>,
    look: (usize, usize),
    scale: f64,
) -> Option<Line> {
    let mut points: Vec<Point> = of
        .filter_map(|series| {
            let sum = series.sum()?;
            let (y, spread) = (sum.spread.median * scale, sum.spread);
            let (low, high) = (spread.lower_quartile * scale, spread.upper_quartile * scale);
            Some(Point { x: series.case.n as f64, y, low, high })
        })
        .collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    (!points.is_empty()).then_some(Line { name, points, colour: look.0, mark: look.1, stops: None })
}

const BARS: &str = "Medians of the runs; bars from the lower to the upper quartile.";

/// The transports, in the order of their colours.
const TRANSPORTS: [&str; 6] = ["raw", "sync", "sem", "msg", "tcp", "udp"];

fn latency(all: &[Series<'_>]) -> Vec<Diagram> {
    let micro = firsts(all, Group::Micro);
    let emulated = micro.iter().any(|series| series.emulated.is_some());
    let curves = |lines: Vec<Line>| Curves {
        x_name: "payload (bytes)",
        y_name: "time of a round trip",
        lines,
        show_x: |x| bytes(x.round() as u64),
        by_twos: true,
        show_y: words::tick_of_time,
        scale: Scale::Logarithmic,
    };
    let (across, here, placements) = (across(&micro), here(&micro), placements(&micro));
    let note = if emulated { " Guests are emulated: their speed has no meaning." } else { "" };
    let caption = |text: &str| format!("{text} {BARS}{note}");
    [
        diagram(
            "latency-guests",
            "Round trip between two guests",
            &caption("All transports over the payload."),
            |format| curves(across.clone()).draw(format),
        ),
        diagram(
            "latency-one-kernel",
            "Round trip in one OS kernel",
            &caption(
                "All transports over the payload, both sides under this machine's own kernel.",
            ),
            |format| curves(here.clone()).draw(format),
        ),
        diagram(
            "latency-placements",
            "P and V in shared memory, by place",
            &caption("One program (sync), wherever its two sides are."),
            |format| curves(placements.clone()).draw(format),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The series of one benchmark in one place.
fn of<'a>(
    micro: &'a [&'a Series<'a>],
    bench: &'static str,
    place: Environment,
    model: Option<Model>,
) -> impl Iterator<Item = &'a Series<'a>> {
    micro.iter().copied().filter(move |series| {
        let case = series.case;
        case.bench == bench
            && case.environment == place
            && model.is_none_or(|model| case.model == model)
    })
}

fn across(micro: &[&Series<'_>]) -> Vec<Line> {
    TRANSPORTS
        .iter()
        .enumerate()
        .filter_map(|(nth, bench)| {
            let over = if nth < 4 { "vshmem" } else { "guests' network" };
            let name = format!("{bench}, {over}");
            line(name, of(micro, bench, Environment::Guests, None), (nth, nth % 2), 1.0)
        })
        .chain(line(
            "sync, System V in one OS kernel".into(),
            of(micro, "sync", Environment::Native, Some(Model::Sysv)),
            (6, 3),
            1.0,
        ))
        .collect()
}

fn here(micro: &[&Series<'_>]) -> Vec<Line> {
    TRANSPORTS
        .iter()
        .enumerate()
        .filter_map(|(nth, bench)| {
            let model = (nth < 4).then_some(Model::Sysv);
            let name =
                if nth < 4 { format!("{bench}, System V") } else { format!("{bench}, loopback") };
            line(name, of(micro, bench, Environment::Native, model), (nth, nth % 2), 1.0)
        })
        .collect()
}

fn placements(micro: &[&Series<'_>]) -> Vec<Line> {
    [
        ("System V, one OS kernel", Environment::Native, Model::Sysv),
        ("vshmem, one OS kernel", Environment::Native, Model::Vshmem),
        ("vshmem, two guests", Environment::Guests, Model::Vshmem),
        ("vshmem, guest and host", Environment::GuestHost, Model::Vshmem),
    ]
    .into_iter()
    .enumerate()
    .filter_map(|(nth, (name, place, model))| {
        line(name.into(), of(micro, "sync", place, Some(model)), (nth, nth), 1.0)
    })
    .collect()
}

/// The models of dwarfs and their looks.
const MODELS: [(&str, Model, Environment); 6] = [
    ("System V", Model::Sysv, Environment::Native),
    ("vshmem", Model::Vshmem, Environment::Native),
    ("MPI", Model::Mpi, Environment::Native),
    ("OpenMP", Model::Openmp, Environment::Native),
    ("vshmem, guests", Model::Vshmem, Environment::Guests),
    ("MPI, guests", Model::Mpi, Environment::Guests),
];

fn dwarfs(all: &[Series<'_>]) -> Vec<Diagram> {
    let dwarfs = firsts(all, Group::Dwarfs);
    let mut names: Vec<&str> = Vec::new();
    for series in dwarfs.iter().filter(|series| series.case.ranks > 1) {
        if !names.contains(&series.case.bench.as_str()) {
            names.push(&series.case.bench);
        }
    }
    let small = |name: &str| {
        let lines: Vec<Line> = MODELS
            .iter()
            .enumerate()
            .filter_map(|(nth, (label, model, place))| {
                let of = dwarfs.iter().copied().filter(|series| {
                    let case = series.case;
                    case.bench == name && case.model == *model && case.environment == *place
                });
                line((*label).to_owned(), of, (nth, nth % 4), 1e9)
            })
            .collect();
        let curves = Curves {
            x_name: "n (size of the problem)",
            y_name: "time of one round",
            lines,
            show_x: words::tick,
            by_twos: false,
            show_y: words::tick_of_time,
            scale: Scale::Logarithmic,
        };
        Some(Diagram {
            name: format!("dwarf-{name}"),
            title: format!("{name}: time of one round over the size"),
            caption: format!(
                "The same computation and the same division of the work in all models. {BARS}"
            ),
            wide: curves.draw(SMALL)?,
            narrow: curves.draw(NARROW)?,
            small: true,
        })
    };
    names.into_iter().filter_map(small).collect()
}

/// Speeds over those in one OS kernel: those that may be concluded from, and those that may not.
fn overhead(answers: &[Answer<'_>]) -> Vec<Diagram> {
    let of_group = |group: Group| {
        let is_it = |answer: &&Answer<'_>| {
            answer.question == Question::Place && answer.subject.case.group == group
        };
        let rows: Vec<(String, Point, Meaning)> =
            answers.iter().filter(is_it).map(|answer| interval_row(answer)).collect();
        let intervals = Intervals { x_name: "times as fast as in one OS kernel (log scale)", rows };
        diagram(
            &format!("overhead-{}", group.name()),
            &format!("{}: guests vs one OS kernel", group.heading()),
            "How many times as fast as the same in one OS kernel, by medians, with the 95 % interval; vshmem against that \
             kernel's own System V IPC. Right of 1 is faster. An interval that reaches across 1 shows no difference; one \
             that ends at the edge goes on beyond it. Green: vshmem faster; orange: vshmem slower; blue: the place alone \
             makes the difference; grey: none shown.",
            |format| intervals.draw(format),
        )
    };
    Group::ALL.into_iter().filter_map(of_group).collect()
}

fn interval_row(answer: &Answer<'_>) -> (String, Point, Meaning) {
    let (case, ratio) = (answer.subject.case, answer.ratio);
    let ends = ratio.interval.map_or([ratio.ratio; 2], |one| [one.low, one.high]);
    let name = format!("{} {}, {}", case.bench, words::size(case), words::place(case));
    (name, Point { x: ratio.ratio, y: 0.0, low: ends[0], high: ends[1] }, answer.meaning())
}

fn products(all: &[Series<'_>]) -> Option<Diagram> {
    let algebra = firsts(all, Group::Algebra);
    let kinds = [("dgemm", "own product"), ("dgemm-blas", "installed BLAS")];
    let places = [Environment::Native, Environment::Guest];
    let mut lines = Vec::new();
    for (bench, words) in kinds {
        for place in places {
            let of = algebra
                .iter()
                .copied()
                .filter(|series| series.case.bench == bench && series.case.environment == place);
            let look = (lines.len(), lines.len());
            lines.extend(line(format!("{words}, {}", place.words()), of, look, 1.0));
        }
    }
    let curves = Curves {
        x_name: "order of the matrices",
        y_name: "Mflop/s",
        lines,
        show_x: words::tick,
        by_twos: false,
        show_y: words::tick,
        scale: Scale::FromZero,
    };
    diagram("mflops", "Matrix product over its order", BARS, |format| curves.draw(format))
}

/// Programs that need more and more memory where there is little: time, and faults that had to wait
/// for a disk. A line for each amount of memory, in guests and in control groups.
fn cliff_lines(all: &[Series<'_>], program: &str, member: &str) -> Vec<Line> {
    let named = format!("{program}-in-");
    let mut benches: Vec<&str> = Vec::new();
    for series in all.iter().filter(|series| series.case.bench.starts_with(&named)) {
        if !benches.contains(&series.case.bench.as_str()) {
            benches.push(&series.case.bench);
        }
    }
    let mut lines = Vec::new();
    for bench in benches {
        let memory = bench.trim_start_matches(&named).replace("-mib", " MiB");
        for (place, what) in
            [(Environment::Guest, "guest of"), (Environment::Native, "control group of")]
        {
            let of = all.iter().filter(|series| {
                series.case.bench == bench
                    && series.case.environment == place
                    && series.figure.member == member
            });
            let look = (lines.len(), lines.len());
            lines.extend(line(format!("{what} {memory}"), of, look, 1.0));
        }
    }
    lines
}

fn cliffs(all: &[Series<'_>]) -> Vec<Diagram> {
    let order: fn(f64) -> String = |x| format!("{x:.0}");
    let size: fn(f64) -> String = |x| bytes(x.round() as u64);
    let caption = "A guest swaps to a disk of its own; its kernel and programs have part of its memory. The host's group swaps to \
                   what the host has: without any, a program that needs more than the group has is killed.";
    let caption = format!("{caption} {BARS}");
    let mut diagrams = Vec::new();
    for (program, title, member, x_name, show_x) in [
        ("dgemm", "Matrix product", "major_faults", "order of the matrices", order),
        ("faults", "First touch of each page", "fetched", "memory that is touched", size),
    ] {
        let time = Curves {
            x_name,
            y_name: "time",
            lines: cliff_lines(all, program, "seconds"),
            show_x,
            by_twos: true,
            show_y: |y| words::tick_of_time(y * 1e9),
            scale: Scale::Logarithmic,
        };
        let faults = Curves {
            y_name: "fetches from the disk",
            lines: cliff_lines(all, program, member),
            show_y: words::tick,
            scale: Scale::FromZero,
            ..time.clone()
        };
        diagrams.extend(diagram(
            &format!("cliff-{program}"),
            &format!("{title} with little memory: time"),
            &caption,
            |format| time.draw(format),
        ));
        diagrams.extend(diagram(
            &format!("cliff-{program}-faults"),
            &format!("{title} with little memory: fetches from the disk"),
            &caption,
            |format| faults.rises().then(|| faults.draw(format)).flatten(),
        ));
    }
    diagrams
}

fn writes(all: &[Series<'_>]) -> Option<Diagram> {
    let system = firsts(all, Group::System);
    let kinds = [
        ("writes", Environment::Native, "memory, one OS kernel"),
        ("writes", Environment::Guest, "memory, one guest"),
        ("writes-disk", Environment::Native, "disk, one OS kernel"),
    ];
    let lines: Vec<Line> = kinds
        .iter()
        .enumerate()
        .filter_map(|(nth, (bench, place, words))| {
            let of = system
                .iter()
                .copied()
                .filter(|series| series.case.bench == *bench && series.case.environment == *place);
            line((*words).to_owned(), of, (nth, nth), 1.0)
        })
        .collect();
    let curves = Curves {
        x_name: "size of a write (bytes)",
        y_name: "written each second",
        lines,
        show_x: |x| bytes(x.round() as u64),
        by_twos: true,
        show_y: |y| words::tick_of_rate(y, "B/s"),
        scale: Scale::Logarithmic,
    };
    diagram("writes", "Writes over their size", BARS, |format| curves.draw(format))
}

/// How often a quantum of work was longer than the shortest, by how much.
fn noise(contents: &Contents) -> Option<Diagram> {
    let lines: Vec<Line> = [Environment::Native, Environment::Guest]
        .into_iter()
        .enumerate()
        .filter_map(|(nth, place)| {
            let counts = histogram(contents, place);
            let points: Vec<Point> =
                counts.into_iter().map(|(x, y)| Point { x, y, low: y, high: y }).collect();
            let name = place.words().to_owned();
            let line = Line { name, points, colour: nth, mark: nth, stops: None };
            (!line.points.is_empty()).then_some(line)
        })
        .collect();
    let curves = Curves {
        x_name: "longer than the shortest by up to",
        y_name: "quanta (count)",
        lines,
        show_x: words::tick_of_time,
        by_twos: false,
        show_y: words::tick,
        scale: Scale::Logarithmic,
    };
    let caption = "A fixed quantum of work, over and over: how many took so much longer than the shortest, in all runs. \
                   A guest here has a minimal userland, the host its full one.";
    diagram("noise", "Noise of the system", caption, |format| curves.draw(format))
}

/// Upper ends in ns and counts, added up over all samples of a place.
fn histogram(contents: &Contents, place: Environment) -> Vec<(f64, f64)> {
    let mut counts: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    let cases = contents.study.cases.iter();
    let names: Vec<&str> = cases
        .filter(|case| case.bench == "noise" && case.environment == place)
        .map(|case| case.name.as_str())
        .collect();
    for sample in contents.samples.iter().filter(|sample| names.contains(&sample.case.as_str())) {
        let buckets = sample.output["histogram"].as_array();
        for bucket in buckets.into_iter().flatten() {
            let (end, count) = (bucket["below_ns"].as_u64(), bucket["count"].as_f64());
            if let (Some(end @ 1..), Some(count)) = (end, count.filter(|count| *count > 0.0)) {
                *counts.entry(end).or_default() += count;
            }
        }
    }
    counts.into_iter().map(|(end, count)| (end as f64, count)).collect()
}
