//! `vshmem bench run`: the papers' measurements, into a directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use vshmem_bench::report::Rows;
use vshmem_bench::study::{
    Case, Contents, Ended, Environment, Extent, Facts, Journal, Placement, Places, PlanComparison,
    Session, Setup, Study, catalogue, clear_leftovers, report, resume_for, this_process, time_left,
};
use vshmem_bench::{Error, Kernels};

use crate::failure::{Failure, Outcome, failed};
use crate::placement::placement;
use crate::table::{objects, table};
use crate::terminal::Terminal;
use vshmem_cli::show;
use vshmem_cli::{built, launch};

/// Run all measurements, by environment and model, into a new directory or one to resume, and write
/// the report.
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// The directory: created, or resumed where its journal ends.
    #[arg(value_name = "DIR", required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// A first look, in some two minutes.
    #[arg(long, conflicts_with = "paper")]
    quick: bool,
    /// With the counts of the papers: 100,000 round trips, 30 repetitions. Takes hours.
    #[arg(long)]
    paper: bool,
    /// Only these groups (micro, dwarfs, algebra, system), benchmarks or cases.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Only these environments: native, guest, guests, guest-host.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    environments: Vec<String>,
    /// Runs of each case that count [default: 15; with --quick 5, as far as there is time, with
    /// --paper 30].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// Stop before so many minutes are over, with a report of what there is; the same command again
    /// goes on.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000), value_name = "N")]
    minutes: Option<u64>,
    /// Seed of the order of runs and of the intervals [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// What a plan is made for: programs in one kernel, in one guest, and in guests side by side,
    /// each on the CPUs of the plan, with their pages counted by node. FILE: what `vshmem plan --as
    /// json` wrote; without, a guest for each socket of this machine. Says what of that this
    /// machine cannot show.
    #[arg(long, conflicts_with = "environments", value_name = "FILE", num_args = 0..=1,
          require_equals = true)]
    plan: Option<Option<PathBuf>>,
    /// Show what there is to measure and about how long that takes, and measure nothing.
    #[arg(long)]
    list: bool,
    /// With --list: as JSON.
    #[arg(long, requires = "list")]
    json: bool,
    /// Use guests 1 and 2 of this lab, and its pool. Without: User Mode Linux guests are booted,
    /// and taken down.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Where the NAS parallel benchmarks are, built for MPI: their `bin` directory.
    #[arg(long, value_name = "DIR")]
    nas: Option<PathBuf>,
    /// Where the C programs are [default: build/bench of the build that this command is from].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem bench run --quick /tmp/look
  vshmem bench run results --only micro,laplace --environments native,guests
  vshmem bench run results                     # again after Ctrl-C: resumes, and loses nothing
  vshmem bench run results --minutes 25        # a part of it; again: the next part
  vshmem bench run --list --only dwarfs
  vshmem bench run guests --plan               # one kernel, one guest, guests side by side
  vshmem bench run guests --plan=plan.json     # on the CPUs of this plan

DIR/journal.jsonl has every run, with what the machine was like; DIR/report.html shows what follows from
them, DIR/summary.csv and DIR/samples.csv are for other programs, DIR/figures for papers. A directory
that was begun keeps its cases, its seed and its repetitions, whatever the options say. What cannot be
run here (no guests, a program that is not installed) is named in the report; the exit code is then 1
only if nothing could be run.";

impl Run {
    /// What `vshmem bench --quick` is short for.
    pub fn quick() -> Self {
        // To the second: two looks a day are two directories.
        let facts = Facts::here();
        let date: String = facts.date.chars().filter(|one| one.is_ascii_digit()).collect();
        let (day, time) = date.split_at(8.min(date.len()));
        let directory = format!("vshmem-bench-{day}-{time}");
        Self { directory: Some(directory.into()), quick: true, ..Self::default() }
    }

    /// Where everything runs. Says what a comparison of plans cannot show on this machine.
    fn placement(&self) -> Result<Option<Placement>, Failure> {
        let Some(file) = &self.plan else { return Ok(None) };
        let placement = placement(file.as_ref())?;
        if !self.json {
            let why = placement.as_ref().err().map(String::as_str);
            for limit in PlanComparison::here(self.lab.is_some()).limits(why) {
                show::line(format!("limit: {limit}"))?;
            }
        }
        Ok(placement.ok())
    }

    /// Measures.
    pub fn carry_out(self) -> Outcome {
        let cases = self.cases()?;
        let placement = self.placement()?;
        let extent = self.extent();
        let study = || {
            let repetitions = self.repetitions.unwrap_or(extent.repetitions());
            // A number that is asked for is used.
            let seconds = extent.seconds().filter(|_| self.repetitions.is_none());
            Study::new(extent.name(), self.seed.unwrap_or_else(now), repetitions, seconds, cases)
        };
        if self.list {
            return self.show_list(&Contents::of(study()));
        }
        let Some(directory) = &self.directory else {
            return Err(Failure::usage("DIR is missing".into()));
        };
        let terminal = Terminal::watch()?;
        let (mut journal, mut contents) = Journal::open(directory, study)?;
        let facts = self.facts();
        if let Some(differences) = contents.other_machine(&facts) {
            return failed(format!(
                "{0} was begun on another machine ({differences}): figures of two machines are not compared in one run. Name another directory; `vshmem bench compare {0} THAT` shows both",
                directory.display()
            ));
        }
        clear_leftovers(&contents.sessions);
        show::line(self.course(&contents))?;
        let command = launch::vshmem()?;
        let mut places = Places::new(Setup {
            kernels: Kernels::of(self.programs.clone(), &command),
            command,
            lab: self.lab.clone(),
            nas: self.nas.clone(),
            scratch: directory.clone(),
            stage: built::launch_components(),
            placement,
        })?;
        let session = Session { facts, process: this_process() };
        let time = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        let course = resume_for(&mut journal, &mut contents, session, &mut places, &terminal, time);
        terminal.clear();
        drop(places);
        let ended = match course {
            Err(Error::Stopped) => {
                return failed(format!(
                    "interrupted after {} runs; `vshmem bench run {1}` resumes, `vshmem bench report {1}` shows the results so far",
                    contents.samples.len(),
                    directory.display()
                ));
            }
            other => other?,
        };
        self.show_results(directory, &contents, ended)
    }

    /// Writes the report, and says what it is about and what is missing.
    fn show_results(&self, directory: &Path, contents: &Contents, ended: Ended) -> Outcome {
        let pages = report::write(directory, contents)?;
        if contents.samples.is_empty() {
            let why = contents.failed_runs.first().map_or("", |failed_run| &failed_run.why);
            return failed(format!("nothing could be run. {why}"));
        }
        crate::report::show_headlines(contents, &pages)?;
        let failures = report::missing(contents);
        for (why, cases) in &failures {
            show::line(format!("not measured ({} cases): {why}", cases.len()))?;
        }
        if ended == Ended::OutOfTime {
            show::line(format!(
                "stopped by --minutes: {}; `vshmem bench run {}` goes on",
                self.course(contents),
                directory.display()
            ))?;
        }
        show::line(format!("{}", pages.display()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The machine and its guests.
    fn facts(&self) -> Facts {
        let guests = match &self.lab {
            Some(lab) => format!("those of the lab {lab}"),
            None => "User Mode Linux, one CPU each".to_owned(),
        };
        Facts { guests: Some(guests), ..Facts::here() }
    }

    /// How far a study is, and how long the rest takes.
    fn course(&self, contents: &Contents) -> String {
        let (cases, repetitions) = (contents.study.cases.len(), contents.study.repetitions);
        let left = time_left(contents, self.nas.as_deref()).as_secs();
        let left = match left {
            0..120 => format!("about {left} s"),
            seconds => format!("about {} min", seconds.div_ceil(60)),
        };
        let whole = cases * repetitions as usize;
        match contents.samples.len() {
            0 => format!(
                "{cases} cases, {repetitions} repetitions and a warm-up of each: {left} on two CPUs, if everything is installed"
            ),
            done => format!("{done} of {whole} runs are done; the rest takes {left}"),
        }
    }

    fn show_list(&self, contents: &Contents) -> Outcome {
        let rows = listed(&contents.study.cases);
        if self.json {
            show::json(&objects(&rows))?;
        } else {
            show::text(&format!("{}\n", table(rows)))?;
            show::line(self.course(contents))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn extent(&self) -> Extent {
        match (self.quick, self.paper) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Paper,
            _ => Extent::Default,
        }
    }

    fn cases(&self) -> Result<Vec<Case>, Failure> {
        let mut all = catalogue(self.extent(), self.nas.as_deref());
        if let Some(word) =
            self.only.iter().find(|word| all.iter().all(|case| !case.is_called(word)))
        {
            let whole = catalogue(Extent::Paper, self.nas.as_deref());
            return Err(Failure::usage(match whole.iter().any(|case| case.is_called(word)) {
                true => format!(
                    "--only {word}: it is no part of this extent; leave --quick out, or give --paper"
                ),
                false => format!(
                    "--only {word}: there is nothing of that name. `vshmem bench run --list` shows what there is"
                ),
            }));
        }
        let environments = self.environments.iter().map(|name| {
            Environment::named(name).ok_or_else(|| {
                let names = Environment::ALL.map(Environment::name).join(", ");
                Failure::usage(format!("--environments {name}: there are {names}; `vshmem bench run --list` shows what runs where"))
            })
        });
        let environments = environments.collect::<Result<Vec<_>, _>>()?;
        all.retain(|case| {
            let meant = self.only.is_empty() || self.only.iter().any(|word| case.is_called(word));
            meant && (environments.is_empty() || environments.contains(&case.environment))
        });
        Ok(if self.plan.is_some() { PlanComparison::cases(all) } else { all })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs())
}

fn listed(cases: &[Case]) -> Rows {
    let mut rows = Rows::new("", ["name", "group", "size", "where", "model"]);
    for case in cases {
        rows.rows.push(vec![
            case.name.clone(),
            case.group.name().into(),
            case.n.to_string(),
            case.environment.words().into(),
            case.model.name().into(),
        ]);
    }
    rows
}
