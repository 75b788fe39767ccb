//! `vshmem bench sysv`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use vshmem_bench::report::{Rows, write_lines};
use vshmem_bench::sysv::{
    self, Comparison, GUEST_PROGRAMS, KernelLimits, POOL_BYTES, POOL_LIMITS, PREPARED_BYTES,
    PROGRAMS, Plan, RunCase, Subject, between_guests, catalogue,
};
use vshmem_bench::{Between, Kernels, Materials, Memory, OwnPool, Site, open_site};

use crate::failure::{Failure, Outcome, failed};
use crate::table::{objects, table};
use crate::terminal::Terminal;
use vshmem_cli::launch;
use vshmem_cli::{show, size};

/// System V calls: the kernel's and a pool's, the same program, interleaved.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Sysv {
    /// Only these (`--list` shows them).
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Show what there is to compare, and its target; measure nothing.
    #[arg(long)]
    list: bool,
    /// Round trips with one side in each of two guests, beside memory and TCP between them, and
    /// beside one kernel.
    #[arg(long)]
    guests: bool,
    /// With --guests: use guests 1 and 2 of this lab, and its pool. Without: a lab is booted, and
    /// taken down.
    #[arg(long, value_name = "NAME", requires = "guests")]
    lab: Option<String>,
    /// Runs of each side [default: 15, those of ten seconds 5; with --quick 5 and 2].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: Option<u32>,
    /// Rounds of each run [default: as many as take a tenth of a second].
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    rounds: Option<u64>,
    /// Length of runs that are measured by time [default: 500, and 10000 for what has to be kept
    /// up; with --quick 200 and 1000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    milliseconds: Option<u64>,
    /// Short runs.
    #[arg(long)]
    quick: bool,
    /// Measure on this pool. Without: on one that is made for it, and removed; as the prepared
    /// pool always is.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Write every run to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the order of runs and of the intervals [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Where the C programs are [default: build/bench of the build that this command is from].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// Bytes of the pool of guests that are booted for this.
const GUESTS_POOL_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  vshmem bench sysv
  vshmem bench sysv --quick --only semop,msg-8 --json runs.jsonl
  vshmem bench sysv --list
  vshmem bench sysv --guests
  vshmem bench sysv --only semop,contend-sem-8 --pool job7

Kernel and pool take turns within one run, in random order. A verdict is \"unsure\" where the
95 % interval of the ratio reaches across the target. Exit code 1 if something could not be measured;
a missed target is not a failure. Do not compare figures of different runs.";

impl Sysv {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        let all = if self.guests { between_guests() } else { catalogue(KernelLimits::here()) };
        let comparisons = chosen(all, &self.only)?;
        if self.list {
            return self.show_list(&comparisons);
        }
        let terminal = Terminal::watch()?;
        let command = launch::vshmem()?;
        let kernels = Kernels::of(self.programs.clone(), &command);
        for program in if self.guests { GUEST_PROGRAMS } else { PROGRAMS } {
            kernels.find(program)?;
        }
        let guests = self.open_guests(&command, &kernels)?;
        let plan = self.plan(comparisons);
        let own = match self.pool {
            Some(_) => None,
            None => Some(OwnPool::make(POOL_BYTES, &POOL_LIMITS)?),
        };
        let (name, file) = self.pool_and_file(own.as_ref())?;
        let about = about(&name, &file, own.is_some())?;
        let prepared = plan
            .comparisons
            .iter()
            .any(Comparison::needs_prepared_pool)
            .then(|| OwnPool::make_prepared(POOL_BYTES, &POOL_LIMITS, PREPARED_BYTES))
            .transpose()?;
        let environments = RunCase {
            command: &command,
            pool: Subject { name: &name, file: &file },
            prepared: prepared.as_ref().map(|own| Subject { name: own.name(), file: own.path() }),
            guests: guests.as_deref(),
        };
        let results = sysv::measure(&environments, &kernels, &plan, &terminal);
        terminal.clear();
        let site = guests.as_ref().map(|site| site.describe());
        drop((own, prepared, guests));
        let results = results?;
        show::line(results.machine.to_string())?;
        show::line(sentence(&about))?;
        let mut tables = vec![results.times(), results.answers()];
        if let Some(site) = site {
            show::line(site)?;
            tables.push(results.every_pair());
        }
        for rows in tables {
            show::text(&format!("\n{}", table(rows)))?;
        }
        if let Some(path) = &self.json {
            write_lines(path, &results.lines(&json!({ "pool": about })))?;
        }
        match &results.failed[..] {
            [] => Ok(ExitCode::SUCCESS),
            missing => {
                let reasons = missing.iter().map(|(name, error)| format!("{name}: {error}"));
                failed(format!("not measured: {}", reasons.collect::<Vec<_>>().join("; ")))
            }
        }
    }

    fn show_list(&self, comparisons: &[Comparison]) -> Outcome {
        let rows = listed(comparisons);
        match &self.json {
            Some(path) => {
                let rows = objects(&rows).into_iter().map(|row| ("case", row));
                write_lines(path, &rows.collect::<Vec<_>>())?;
            }
            None => show::text(&table(rows).to_string())?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The pool that is measured: the one that was made for this, or the one that was named.
    fn pool_and_file(&self, own: Option<&OwnPool>) -> Result<(String, PathBuf), Failure> {
        if let Some(own) = own {
            return Ok((own.name().to_owned(), own.path().to_owned()));
        }
        let name = self.pool.clone().unwrap_or_default();
        let file = vshmem_session::find(&name)?.path().to_owned();
        Ok((name, file))
    }

    /// Two guests, if they are asked for.
    fn open_guests(
        &self,
        command: &Path,
        kernels: &Kernels,
    ) -> Result<Option<Box<dyn Site>>, Failure> {
        if !self.guests {
            return Ok(None);
        }
        let programs = GUEST_PROGRAMS
            .iter()
            .map(|program| kernels.find(program))
            .collect::<Result<Vec<_>, _>>()?;
        let materials = Materials {
            command,
            programs: &programs,
            lab: self.lab.as_deref(),
            pool_bytes: GUESTS_POOL_BYTES,
            guests: 2,
            memory: Memory::default(),
            peers: false,
            stage: &[],
        };
        let note = |line: &str| eprintln!("vshmem: {line}");
        Ok(Some(open_site(Some(Between::Guests), &materials, &note)?))
    }

    fn plan(&self, comparisons: Vec<Comparison>) -> Plan {
        let (pairs, sustained_pairs, milliseconds, sustained_milliseconds) =
            if self.quick { (5, 2, 200, 1000) } else { (15, 5, 500, 10_000) };
        // Batches are short beside a time slice, so that what else runs spoils few of them.
        let (batches, batch_ns) = match (self.guests, self.quick) {
            // Long beside a reading of the clock, which takes 40 us in a User Mode Linux guest.
            (true, quick) => (if quick { 20 } else { 50 }, 2e6),
            (false, true) => (100, 2e5),
            (false, false) => (400, 2.5e5),
        };
        let seed = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.map_or(1, |now| now.as_secs())
        };
        Plan {
            comparisons,
            pairs: self.pairs.unwrap_or(pairs) as usize,
            sustained_pairs: self.pairs.unwrap_or(sustained_pairs) as usize,
            rounds: self.rounds,
            batches,
            batch_ns,
            milliseconds: self.milliseconds.unwrap_or(milliseconds),
            sustained_milliseconds: self.milliseconds.unwrap_or(sustained_milliseconds),
            seed: self.seed.unwrap_or_else(seed),
        }
    }
}

/// Those of that name; all if there is no name.
fn chosen(all: Vec<Comparison>, only: &[String]) -> Result<Vec<Comparison>, Failure> {
    if let Some(name) = only.iter().find(|name| all.iter().all(|one| one.name != **name)) {
        return Err(Failure::usage(format!(
            "--only {name}: there is nothing of that name. `vshmem bench sysv --list` shows what there is, `vshmem bench sysv --list --guests` what there is between guests"
        )));
    }
    Ok(all.into_iter().filter(|one| only.is_empty() || only.contains(&one.name)).collect())
}

fn listed(comparisons: &[Comparison]) -> Rows {
    let mut rows = Rows::new("", ["name", "what", "target"]);
    for one in comparisons {
        rows.rows.push(vec![one.name.clone(), one.about.clone(), one.targets()]);
    }
    rows
}

/// Facts of the pool that belong with the figures.
fn about(name: &str, file: &Path, own: bool) -> Result<Value, Failure> {
    let link = vshmem_session::find(name)?;
    let bytes = link.bytes();
    let geometry = vshmem_session::open_pool(link.as_ref())?.superblock().geometry;
    Ok(json!({
        "name": name, "file": file, "bytes": bytes, "made_for_this": own,
        "shmmni": geometry.shmmni, "semmni": geometry.semmni, "msgmni": geometry.msgmni,
        "clients": geometry.clients, "threads": geometry.threads, "attaches": geometry.attaches,
    }))
}

fn sentence(about: &Value) -> String {
    let number = |name: &str| about[name].as_u64().unwrap_or(0);
    let limits: Vec<String> = ["shmmni", "semmni", "msgmni", "clients", "threads", "attaches"]
        .iter()
        .map(|name| format!("{name} {}", number(name)))
        .collect();
    format!("pool of {}: {}", size::show(number("bytes")), limits.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_keeps_its_order() {
        let all = || catalogue(KernelLimits::here());
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(all(), &only)
                .map(|some| some.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["msg-8", "semop"]).unwrap(), ["semop", "msg-8"]);
        assert_eq!(names(&[]).unwrap().len(), all().len());
        assert!(matches!(names(&["semop", "nonsense"]), Err(Failure::Command(_))));
    }
}
