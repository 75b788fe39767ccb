//! `vshmem bench mpi`: stock Open MPI between two guests, beside its own shared memory in one
//! kernel and TCP between the same guests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use vshmem_bench::report::write_lines;
use vshmem_bench::{Order, ratios, take_turns};

use crate::failure::{Failure, Outcome, failed};
use vshmem_cli::choice::{self, Choice};
use vshmem_cli::show;
use vshmem_cli::table::Table;
use vshmem_cli::{launch, program};

use crate::mpi_jobs::{Contender, Guests, Job, spread};
use crate::nas;

/// MPI: latency, bandwidth, message rate, collectives and one-sided calls through a pool, beside
/// Open MPI's own shared memory and TCP.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mpi {
    /// Runs of each contender.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Calls::Messages)]
    calls: Calls,
    /// Processes: half of them in each guest.
    #[arg(long, short = 'n', default_value_t = 2)]
    processes: u32,
    /// Short runs, and not the largest messages.
    #[arg(long)]
    quick: bool,
    /// Use guests 1 and 2 of this lab. Without: a lab of two User Mode Linux guests is booted, and
    /// taken down.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Where the program is [default: build/mpi of the build that this command is from].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Measure the NAS Parallel Benchmarks in this directory instead (`ft.A.2`, `cg.A.2`, ...; the
    /// last part is the number of processes, or `x`), with `--heap` and over TCP as well.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "json", "heap"])]
    nas: Option<PathBuf>,
    /// With the programs' large allocations in the pool as well (`vshmem mpi-env --heap`), instead
    /// of over TCP.
    #[arg(long, conflicts_with = "calls")]
    heap: bool,
    /// Write every run to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem bench mpi
  vshmem bench mpi --quick --pairs 3 --lab lab
  vshmem bench mpi --calls windows --quick
  vshmem bench mpi --heap --pairs 15
  vshmem bench mpi --pairs 3 --nas ~/NPB3.4-MPI/bin

`1 kernel` is Open MPI's own shared memory (vader; for windows osc/sm) between two processes on this
host; the others are the same program, half of its processes in each guest. A run gives the fastest
of up to sixty short repetitions of each measurement. Do not compare figures of different runs.";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Calls {
    /// Messages between pairs of processes, in one direction and in both, and collective calls.
    Messages,
    /// One-sided calls on a window of MPI_Win_allocate, each with a flush, and lock, fence and
    /// post with a put.
    Windows,
}

impl Calls {
    /// The program that measures them.
    fn program(self) -> &'static str {
        match self {
            Self::Messages => "pairs",
            Self::Windows => "windows_speed",
        }
    }

    /// Who makes them. Stock Open MPI has no windows over TCP, as Debian builds it.
    fn contenders(self, heap: bool) -> &'static [Contender] {
        use Contender::{Heap, Pool, Tcp, Vader};
        match (self, heap) {
            (Self::Messages, false) => &[Vader, Pool, Tcp],
            (Self::Messages, true) => &[Vader, Pool, Heap],
            (Self::Windows, _) => &[Vader, Pool],
        }
    }

    /// What the run in one kernel is told. The faster of the two components for windows that Open
    /// MPI has, and the one that does not crash in compare-and-swap over vader.
    fn in_one_kernel(self) -> &'static [&'static str] {
        match self {
            Self::Messages => &[],
            Self::Windows => &["--mca", "osc", "sm"],
        }
    }
}

/// What one line of the program says: which measurement, and nanoseconds.
type Readings = BTreeMap<(usize, String), f64>;

impl Mpi {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        if self.processes == 0 || !self.processes.is_multiple_of(2) {
            return Err(Failure::usage(format!(
                "-n {}: the processes come in pairs, one in each guest; give an even number, as in `vshmem bench mpi -n 4`",
                self.processes
            )));
        }
        let command = launch::vshmem()?;
        let found =
            self.nas.as_deref().map(|path| nas::programs(path, self.processes)).transpose()?;
        let program = match &found {
            Some(_) => PathBuf::new(),
            None => self.program(&command)?,
        };
        if program::find(Path::new("mpirun")).is_err() {
            return failed(
                "mpirun is not in PATH. `apt-get install openmpi-bin` installs it; `vshmem bench pingpong` needs no MPI",
            );
        }
        vshmem_cli::mpi_components(None)?;
        let guests = Guests::of(&command, self.lab.as_deref())?;
        if let Some(found) = found {
            return nas::measure(&found, self.processes, self.pairs, &guests);
        }
        guests.deliver(&program)?;
        let runs = take_turns(
            self.calls.contenders(self.heap),
            self.pairs as usize,
            Order::Rotating,
            |pair, contender| {
                eprintln!("vshmem: run {} of {}: {}", pair + 1, self.pairs, contender.name());
                self.turn(*contender, &guests, &program)
            },
        )?;
        drop(guests);
        if let Some(path) = &self.json {
            write_lines(path, &lines(self.calls.contenders(self.heap), &runs))?;
        }
        self.show(&runs)
    }

    fn program(&self, command: &Path) -> Result<PathBuf, Failure> {
        let beside = command.parent().unwrap_or(Path::new("."));
        let paths = ["../../build/mpi", "../lib/vshmem/bench"].map(|below| beside.join(below));
        let path = match &self.programs {
            Some(path) => path.join(self.calls.program()),
            None => paths
                .iter()
                .map(|path| path.join(self.calls.program()))
                .find(|program| program.is_file())
                .unwrap_or_else(|| paths[0].join(self.calls.program())),
        };
        path.canonicalize().map_err(|error| {
            Failure::failed(format!(
                "{}: {error}. `apt-get install vshmem-openmpi` installs it; in the source tree `make programs` builds it where Open MPI is (libopenmpi-dev, openmpi-bin)",
                path.display()
            ))
        })
    }

    fn turn(
        &self,
        contender: Contender,
        guests: &Guests,
        program: &Path,
    ) -> Result<Readings, Failure> {
        let job = Job {
            processes: self.processes,
            program,
            words: &[if self.quick { "quick" } else { "full" }],
            in_one_kernel: self.calls.in_one_kernel(),
        };
        let text = contender.run(&job, guests)?;
        let readings: Readings = text.lines().enumerate().filter_map(reading).collect();
        if readings.is_empty() {
            return failed(format!("{}: the program printed no measurement", contender.name()));
        }
        Ok(readings)
    }

    fn show(&self, runs: &[Vec<Readings>]) -> Outcome {
        let figures = |nth: usize, key: &(usize, String)| -> Vec<f64> {
            runs[nth].iter().filter_map(|run| run.get(key).copied()).collect()
        };
        let contenders = self.calls.contenders(self.heap);
        let mut columns = vec!["what"];
        columns.extend(contenders.iter().map(|contender| contender.name()));
        let mut times = Table::new(
            &format!("Median of {} interleaved runs (smallest .. largest)", self.pairs),
            &columns,
        );
        let mut factors = Table::new(
            "How many times as fast vshmem is, within each run: median (smallest .. largest)",
            &["what", "vader / vshmem", if self.heap { "vader / --heap" } else { "tcp / vshmem" }]
                [..contenders.len()],
        );
        let keys: Vec<&(usize, String)> = runs
            .first()
            .and_then(|of| of.first())
            .map(|run| run.keys().collect())
            .unwrap_or_default();
        for key in keys {
            let of: Vec<Vec<f64>> = (0..contenders.len()).map(|nth| figures(nth, key)).collect();
            let mut row = vec![key.1.clone()];
            row.extend(of.iter().map(|times| spread(times, &time)));
            times.row(row);
            let factor = |value: f64| format!("{value:.2}x");
            let mut row = vec![key.1.clone(), spread(&ratios(&of[0], &of[1]), &factor)];
            row.extend(of.get(2).map(|third| match self.heap {
                true => spread(&ratios(&of[0], third), &factor),
                false => spread(&ratios(third, &of[1]), &factor),
            }));
            factors.row(row);
        }
        let pool = match choice::choose(None)? {
            Choice::Named(name) | Choice::Given { name, .. } => {
                format!(" on pool {}", show::sanitized(&name))
            }
            Choice::Private => String::new(),
        };
        show::line(format!("Open MPI, {} processes{pool}", self.processes))?;
        show::text(&format!("\n{times}\n{factors}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Every figure: who, in which run, what, and nanoseconds.
fn lines(contenders: &[Contender], runs: &[Vec<Readings>]) -> Vec<(&'static str, Value)> {
    let mut lines = Vec::new();
    for (contender, runs) in contenders.iter().zip(runs) {
        for (run, readings) in runs.iter().enumerate() {
            lines.extend(readings.iter().map(|((_, what), nanoseconds)| {
                let line = json!({
                    "contender": contender.name(), "run": run, "what": what, "ns": nanoseconds,
                });
                ("run", line)
            }));
        }
    }
    lines
}

/// `WHAT BYTES MEMORY NANOSECONDS`. Lines keep the order in which the program measures.
fn reading((nth, line): (usize, &str)) -> Option<((usize, String), f64)> {
    let mut words = line.split_whitespace();
    let (what, bytes, memory) = (words.next()?, words.next()?, words.next()?);
    let nanoseconds = words.next()?.parse().ok()?;
    let size = bytes.parse::<u64>().ok()?;
    let size = match size {
        0 => String::new(),
        size if size >= 1 << 20 => format!(" {} MiB", size >> 20),
        size if size >= 1 << 10 => format!(" {} KiB", size >> 10),
        size => format!(" {size} B"),
    };
    let memory = if memory == "pool" { ", MPI_Alloc_mem" } else { "" };
    let what = what.replace('_', " ");
    Some(((nth, format!("{what}{size}{memory}")), nanoseconds))
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.3} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_are_read_and_others_passed_over() {
        let read = |line| reading((3, line)).map(|((_, what), ns)| (what, ns));
        assert_eq!(read("pingpong 8 private 120.5"), Some(("pingpong 8 B".into(), 120.5)));
        let pool = Some(("stream 1 MiB, MPI_Alloc_mem".into(), 7.0));
        assert_eq!(read("stream 1048576 pool 7"), pool);
        assert_eq!(read("barrier 0 private 9"), Some(("barrier".into(), 9.0)));
        let window = Some(("fetch and op 8 B".into(), 36.2));
        assert_eq!(read("fetch_and_op 8 window 36.2"), window);
        assert_eq!(read("a warning of mpirun's"), None);
        assert_eq!(read(""), None);
    }
}
