//! `vshmem bench guard`: does this build do anything slower than another one?

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use vshmem_bench::Kernels;
use vshmem_bench::guard::{self, Build, CASES, Case, Finding, Plan};
use vshmem_bench::report::{Rows, duration, factor};

use crate::failure::{Failure, Outcome};
use crate::table::table;
use crate::terminal::Terminal;
use vshmem_cli::launch;
use vshmem_cli::show;

/// Compare this build with another one, in some 45 s: which calls have become slower. Exit code
/// 1 if any has.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Guard {
    /// What to compare with: a directory with another build's `vshmem` and `libvshmem_preload.so`,
    /// or a commit, which is built once, into target/guard.
    #[arg(value_name = "BASE")]
    base: String,
    /// Only these cases.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Runs of each case by each build, at least ten.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(10..=1000))]
    pairs: u32,
    /// A difference that does not count, in percent.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100), value_name = "PERCENT")]
    tolerance: u32,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
    /// Seed of the order of runs and of the intervals [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Where the C programs are [default: build/bench of the build that this command is from].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem bench guard main
  vshmem bench guard HEAD~3 --only semop,msg-8 --pairs 60
  vshmem bench guard /opt/vshmem-0.1/bin

Both builds take turns in random order, each pair on pools of its own. A case is slower when its median is, by
more than --tolerance, its 95 % bootstrap interval does not reach across 1, and Wilcoxon's signed-rank test
says so after Holm's correction for the number of cases.";

impl Guard {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        let cases = self.cases()?;
        let terminal = Terminal::watch()?;
        let command = launch::vshmem()?;
        let kernels = Kernels::of(self.programs.clone(), &command);
        let base = guard::build_of(&self.base, &terminal)?;
        let own = Build::in_directory("this build", command.parent().unwrap_or(&command))?;
        let plan = Plan {
            cases,
            pairs: self.pairs as usize,
            tolerance: f64::from(self.tolerance) / 100.0,
            seed: self.seed.unwrap_or_else(now),
        };
        let found = guard::guard(&own, &base, &kernels, &plan, &terminal);
        terminal.clear();
        let found = found?;
        if self.json {
            show::json(&found)?;
        } else {
            show::text(&table(rows(&self.base, &found)).to_string())?;
        }
        let slower: Vec<&str> =
            found.iter().filter(|one| one.is_slower).map(|one| one.case).collect();
        if slower.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        if !self.json {
            show::line(format!(
                "slower than {}: {}. Run it again; `perf record -e cpu-clock` of both builds shows where",
                self.base,
                slower.join(", ")
            ))?;
        }
        Ok(ExitCode::FAILURE)
    }

    fn cases(&self) -> Result<Vec<Case>, Failure> {
        let is_there = |name: &String| CASES.iter().any(|case| case.name == name);
        if let Some(name) = self.only.iter().find(|name| !is_there(name)) {
            let names = CASES.map(|case| case.name).join(", ");
            return Err(Failure::usage(format!("--only {name}: there are {names}")));
        }
        let mut cases = CASES.to_vec();
        cases.retain(|case| self.only.is_empty() || self.only.iter().any(|one| one == case.name));
        Ok(cases)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs())
}

fn rows(base: &str, found: &[Finding]) -> Rows {
    let title = format!("This build vs {base}: how many times as fast (95 % interval)");
    let columns =
        ["case", "base", "this build", "times as fast", "interval", "adjusted p", "verdict"];
    let mut rows = Rows::new(&title, columns);
    for one in found {
        let interval =
            one.interval.map(|ends| format!("{} .. {}", factor(ends.low), factor(ends.high)));
        let verdict = match (one.is_slower, one.is_faster) {
            (true, _) => "SLOWER",
            (_, true) => "faster",
            _ => "no difference shown",
        };
        rows.rows.push(vec![
            one.case.into(),
            duration(one.base_ns),
            duration(one.own_ns),
            factor(one.speed),
            interval.unwrap_or_default(),
            format!("{:.4}", one.adjusted_p),
            verdict.into(),
        ]);
    }
    rows
}
