//! Which figures there are: the counterparts of the papers'.

use super::chart::{Curves, Format, Intervals, Line, NARROW, Point, SMALL, WIDE};
use super::conclusions::{Answer, Question};
use super::series::{Series, firsts};
use super::words;
use crate::report::{bytes, duration};
use crate::study::case::{Group, Model};
use crate::study::environment::Environment;
use crate::study::journal::Contents;

/// A figure in two formats.
#[derive(Debug, Clone)]
pub struct Diagram {
    /// Its file's name, without the ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// For desks and paper.
    pub wide: String,
    /// For phones.
    pub narrow: String,
    /// One of several beside each other.
    pub small: bool,
}

/// All figures that the samples have.
pub fn all(contents: &Contents, series: &[Series<'_>], answers: &[Answer<'_>]) -> Vec<Diagram> {
    let mut diagrams = Vec::new();
    diagrams.extend(latency(series));
    diagrams.extend(dwarfs(series));
    diagrams.extend(overhead(answers));
    diagrams.extend(products(series));
    diagrams.extend(cliffs(series));
    diagrams.extend(writes(series));
    diagrams.extend(noise(contents));
    diagrams
}

fn diagram(
    name: &str,
    title: &str,
    caption: &str,
    draw: impl Fn(Format) -> Option<String>,
) -> Option<Diagram> {
    let (wide, narrow) = (draw(WIDE)?, draw(NARROW)?);
    Some(Diagram {
        name: name.into(),
        title: title.into(),
        caption: caption.into(),
        wide,
        narrow,
        small: false,
    })
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
    (!points.is_empty()).then_some(Line { name, points, colour: look.0, mark: look.1 })
}

const BARS: &str = "Medians; bars from the lower to the upper quartile.";

/// The transports, in the order of their colours.
const TRANSPORTS: [&str; 6] = ["raw", "sync", "sem", "msg", "tcp", "udp"];

fn latency(all: &[Series<'_>]) -> Vec<Diagram> {
    let micro = firsts(all, Group::Micro);
    let emulated = micro.iter().any(|series| series.emulated.is_some());
    let curves = |lines: Vec<Line>| Curves {
        x_name: "payload",
        y_name: "round trip",
        lines,
        show_x: |x| bytes(x.round() as u64),
        by_twos: true,
        show_y: duration,
        linear_y: false,
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
            "Round trip in one kernel",
            &caption("The same within this machine's kernel."),
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
            let over = if nth < 4 { "vshmem" } else { "network" };
            let name = format!("{bench}, {over}");
            line(name, of(micro, bench, Environment::Guests, None), (nth, nth % 2), 1.0)
        })
        .chain(line(
            "sync, sysv in one kernel".into(),
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
                if nth < 4 { format!("{bench}, sysv") } else { format!("{bench}, loopback") };
            line(name, of(micro, bench, Environment::Native, model), (nth, nth % 2), 1.0)
        })
        .collect()
}

fn placements(micro: &[&Series<'_>]) -> Vec<Line> {
    [
        ("sysv, one kernel", Environment::Native, Model::Sysv),
        ("vshmem, one kernel", Environment::Native, Model::Vshmem),
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
    ("sysv", Model::Sysv, Environment::Native),
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
            x_name: "n",
            y_name: "one round",
            lines,
            show_x: short_number,
            by_twos: false,
            show_y: duration,
            linear_y: false,
        };
        Some(Diagram {
            name: format!("dwarf-{name}"),
            title: name.to_owned(),
            caption: String::new(),
            wide: curves.draw(SMALL)?,
            narrow: curves.draw(NARROW)?,
            small: true,
        })
    };
    names.into_iter().filter_map(small).collect()
}

/// Ratios over one kernel: those that may be concluded from, and those that may not.
fn overhead(answers: &[Answer<'_>]) -> Vec<Diagram> {
    let groups = Group::ALL.into_iter().enumerate();
    groups
        .filter_map(|(nth, group)| {
            let of: Vec<&Answer<'_>> = answers
                .iter()
                .filter(|answer| {
                    answer.question == Question::Place && answer.subject.case.group == group
                })
                .collect();
            let rows: Vec<(String, Point, usize)> = of
                .iter()
                .map(|answer| {
                    let case = answer.subject.case;
                    let ratio = answer.ratio;
                    // Above 1 is always worse.
                    let turn = |x: f64| if answer.subject.is_cost() { x } else { 1.0 / x };
                    let ends = ratio.interval.map_or([ratio.ratio; 2], |one| [one.low, one.high]);
                    let [one, other] = ends.map(turn);
                    let (low, high) = (one.min(other), one.max(other));
                    let name = format!("{} {}, {}", case.bench, words::size(case), words::place(case));
                    (name, Point { x: turn(ratio.ratio), y: 0.0, low, high }, nth)
                })
                .collect();
            let intervals =
                Intervals { x_name: "ratio to one kernel", rows };
            diagram(
                &format!("overhead-{}", group.name()),
                &format!("{}: what another place costs", group.heading()),
                "Ratio of medians to the same in one kernel, with its 95 % interval; for vshmem, to the kernel's own \
                 System V IPC. An interval that reaches across 1 shows no difference.",
                |format| intervals.draw(format),
            )
        })
        .collect()
}

fn products(all: &[Series<'_>]) -> Option<Diagram> {
    let algebra = firsts(all, Group::Algebra);
    let kinds = [("dgemm", "own kernel"), ("dgemm-blas", "installed BLAS")];
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
        show_x: short_number,
        by_twos: false,
        show_y: |y| format!("{y:.0}"),
        linear_y: true,
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
            show_y: |y| duration(y * 1e9),
            linear_y: false,
        };
        let faults = Curves {
            y_name: "fetches from the disk",
            lines: cliff_lines(all, program, member),
            show_y: short_number,
            linear_y: true,
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
        ("writes", Environment::Native, "memory, one kernel"),
        ("writes", Environment::Guest, "memory, one guest"),
        ("writes-disk", Environment::Native, "disk, one kernel"),
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
        x_name: "size of a write",
        y_name: "written each second",
        lines,
        show_x: |x| bytes(x.round() as u64),
        by_twos: true,
        show_y: |y| words::figure(y, "B/s"),
        linear_y: false,
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
            (!points.is_empty()).then_some(Line { name, points, colour: nth, mark: nth })
        })
        .collect();
    let curves = Curves {
        x_name: "longer than the shortest by up to",
        y_name: "quanta",
        lines,
        show_x: duration,
        by_twos: false,
        show_y: short_number,
        linear_y: false,
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

fn short_number(x: f64) -> String {
    match x {
        x if x >= 1e6 => format!("{}M", x / 1e6),
        x if x >= 1e4 => format!("{}k", (x / 1e3).round()),
        x => format!("{}", x.round()),
    }
}
