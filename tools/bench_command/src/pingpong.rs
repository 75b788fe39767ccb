//! `vshmem bench pingpong`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use vshmem_bench::pingpong::{self, NET_KERNEL, Plan, SYSV_KERNEL};
use vshmem_bench::report::write_lines;
use vshmem_bench::{Between, Kernels, Materials, Memory, open_site};

use crate::failure::Outcome;
use crate::table::table;
use crate::terminal::Terminal;
use vshmem_cli::launch;
use vshmem_cli::{show, size};

/// Round trips: shared memory in one kernel, across two guests, TCP and UDP between them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Pingpong {
    /// Payloads.
    #[arg(long, value_delimiter = ',', default_value = "8,1K,64K", value_parser = size::parse)]
    sizes: Vec<u64>,
    /// Pairs for each payload [default: 15; with --quick 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: Option<u32>,
    /// Rounds of each run [default: as many as take half a second; with --quick a tenth].
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    rounds: Option<u64>,
    /// Short runs.
    #[arg(long)]
    quick: bool,
    /// Write every run to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Use guests 1 and 2 of this lab, and its pool. Without: a lab is booted, and taken down.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Between what [default: guests; containers where guests cannot be booted; else processes].
    #[arg(long, conflicts_with = "lab")]
    between: Option<Place>,
    /// Where the C programs are [default: build/bench of the build that this command is from].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem bench pingpong
  vshmem bench pingpong --sizes 8,4K --pairs 5 --quick --json pairs.jsonl
  vshmem bench pingpong --lab lab

sysv is two processes of this kernel on its own System V shared memory, on the CPUs that the guests
run on; vshmem is the same program, one role in each guest. Do not compare figures of different runs.";

/// Where the two roles run.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Place {
    /// Two guests of a lab.
    Guests,
    /// Two PID namespaces of this kernel, made without privileges.
    Containers,
    /// Two processes of this domain.
    Processes,
}

impl From<Place> for Between {
    fn from(place: Place) -> Self {
        match place {
            Place::Guests => Self::Guests,
            Place::Containers => Self::Containers,
            Place::Processes => Self::Processes,
        }
    }
}

/// Bytes of a pool that is made for a benchmark.
const POOL_BYTES: u64 = 64 << 20;

impl Pingpong {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        let terminal = Terminal::watch()?;
        let command = launch::vshmem()?;
        let kernels = Kernels::of(self.programs.clone(), &command);
        let programs = [kernels.find(SYSV_KERNEL)?, kernels.find(NET_KERNEL)?];
        let (pairs, batches, batch_ns) = if self.quick { (5, 50, 2e6) } else { (15, 100, 5e6) };
        let plan = Plan {
            sizes: self.sizes,
            pairs: self.pairs.unwrap_or(pairs) as usize,
            rounds: self.rounds,
            batches,
            batch_ns,
        };
        let materials = Materials {
            command: &command,
            programs: &programs,
            lab: self.lab.as_deref(),
            pool_bytes: POOL_BYTES,
            guests: 2,
            memory: Memory::default(),
            peers: false,
            stage: &[],
        };
        let note = |line: &str| eprintln!("vshmem: {line}");
        let site = open_site(self.between.map(Between::from), &materials, &note)?;
        show::line(site.describe())?;
        let results = pingpong::measure(site.as_ref(), &kernels, &plan, &terminal);
        terminal.clear();
        drop(site);
        let results = results?;
        show::line(results.machine.to_string())?;
        for rows in [results.times(), results.factors(), results.every_pair()] {
            show::text(&format!("\n{}", table(rows)))?;
        }
        if let Some(path) = &self.json {
            write_lines(path, &results.lines())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
