//! `vshmem bench mpi --nas`: the NAS Parallel Benchmarks that somebody has built, in Open MPI's own
//! shared memory in one kernel, and between two guests through the pool, with large allocations in
//! it, and by TCP, in turns.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vshmem_bench::{Order, ratios, take_turns};

use crate::failure::{Failure, Outcome, failed};
use vshmem_cli::show;
use vshmem_cli::table::Table;

use crate::mpi_jobs::{Contender, Guests, Job, spread};

/// The codes that there are.
const CODES: [&str; 8] = ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp"];

/// A program of the suite.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    name: String,
}

/// Whether a file is a code for so many processes: `ft.A.2`, or `ft.A.x` for any number.
fn is_code(name: &str, processes: u32) -> bool {
    let mut parts = name.split('.');
    let (code, class, count) = (parts.next(), parts.next(), parts.next());
    let small = |class: &str| ["S", "W", "A", "B", "C", "D", "E"].contains(&class);
    code.is_some_and(|code| CODES.contains(&code))
        && class.is_some_and(small)
        && count.is_some_and(|count| count == "x" || count == processes.to_string())
        && parts.next().is_none()
}

/// Those of a directory, in the order of their names.
pub(crate) fn programs(path: &Path, processes: u32) -> Result<Vec<Program>, Failure> {
    let unreadable = |error| Failure::failed(format!("{}: {error}", path.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_code(&name, processes) {
            found.push(Program { path: entry.path(), name });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    if found.is_empty() {
        return failed(format!(
            "{}: no program of the NAS Parallel Benchmarks for {processes} processes is there. `make ft CLASS=A` in the suite's NPB-MPI directory builds bin/ft.A.x",
            path.display()
        ));
    }
    Ok(found)
}

const CONTENDERS: [Contender; 4] =
    [Contender::Vader, Contender::Pool, Contender::Heap, Contender::Tcp];
/// By their places there: whose time is divided by whose.
const FACTORS: [(&str, usize, usize); 3] =
    [("vader / vshmem", 0, 1), ("vader / --heap", 0, 2), ("tcp / vshmem", 3, 1)];

/// Measures each in turns, and shows what took how long.
pub(crate) fn measure(
    programs: &[Program],
    processes: u32,
    pairs: u32,
    guests: &Guests,
) -> Outcome {
    let title = format!("Seconds: median of {pairs} interleaved runs (smallest .. largest)");
    let names = CONTENDERS.iter().map(|contender| contender.name());
    let mut times = Table::new(&title, &["code"].into_iter().chain(names).collect::<Vec<_>>());
    let names = FACTORS.iter().map(|(name, ..)| *name);
    let mut factors = Table::new(
        "How many times as fast, within each run: median (smallest .. largest)",
        &["code"].into_iter().chain(names).collect::<Vec<_>>(),
    );
    for program in programs {
        guests.deliver(&program.path)?;
        let runs = take_turns(&CONTENDERS, pairs as usize, Order::Rotating, |pair, contender| {
            let who = contender.name();
            eprintln!("vshmem: {}, run {} of {pairs}: {who}", program.name, pair + 1);
            turn(program, processes, *contender, guests)
        })?;
        let shown = |seconds: f64| format!("{seconds:.3}");
        let of = |runs: &Vec<f64>| spread(runs, &shown);
        times.row([program.name.clone()].into_iter().chain(runs.iter().map(of)).collect());
        let shown = |value: f64| format!("{value:.2}x");
        let of = |&(_, over, under): &(&str, usize, usize)| {
            spread(&ratios(&runs[over], &runs[under]), &shown)
        };
        factors.row([program.name.clone()].into_iter().chain(FACTORS.iter().map(of)).collect());
    }
    let begins = |code: &&str| programs.iter().any(|program| program.name.starts_with(*code));
    let missing: Vec<&str> = CODES.into_iter().filter(|code| !begins(code)).collect();
    show::line(format!("NAS Parallel Benchmarks, {processes} processes"))?;
    show::text(&format!("\n{times}\n{factors}"))?;
    if !missing.is_empty() {
        show::line(format!("Not found for {processes} processes: {}", missing.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn turn(
    program: &Program,
    processes: u32,
    contender: Contender,
    guests: &Guests,
) -> Result<f64, Failure> {
    let job = Job { processes, program: &program.path, words: &[], in_one_kernel: &[] };
    seconds(&contender.run(&job, guests)?).ok_or_else(|| {
        let (name, who) = (&program.name, contender.name());
        Failure::failed(format!("{name}: {who}: it did not end with SUCCESSFUL and a time"))
    })
}

/// `Time in seconds = 12.34`, of a run whose result is right.
fn seconds(text: &str) -> Option<f64> {
    let after = |words: &str| {
        // LU says what it verifies before it says how that went.
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with(words));
        lines.find_map(|line| line.split_once('=')).map(|(_, value)| value.trim())
    };
    (after("Verification")? == "SUCCESSFUL").then(|| after("Time in seconds")?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        assert!(is_code("ft.A.2", 2) && is_code("cg.S.x", 4) && is_code("is.C.16", 16));
        for name in ["ft.A.4", "ft.A", "ft.Z.2", "xx.A.2", "ft.A.2.old", "README"] {
            assert!(!is_code(name, 2), "{name}");
        }
    }

    #[test]
    fn a_time_counts_when_the_result_is_right() {
        let text = |verdict| {
            format!(
                " FT Benchmark Completed.\n Verification being performed for class S\n Time in seconds =  12.34\n Verification =  {verdict}\n"
            )
        };
        assert_eq!(seconds(&text("SUCCESSFUL")), Some(12.34));
        assert_eq!(seconds(&text("UNSUCCESSFUL")), None);
        assert_eq!(seconds(""), None);
    }
}
