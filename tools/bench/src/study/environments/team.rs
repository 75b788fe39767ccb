//! A process for each rank.

use std::path::{Path, PathBuf};

use super::filler::Filler;
use super::places::{Places, patient};
use crate::error::{Error, Result};
use crate::site::{Job, run_bare, run_on_pool};
use crate::study::case::{Case, Model};
use crate::study::environment::Environment;

impl Places {
    /// Starts all ranks; the line is the first one's. In guests the ranks go round: the first in
    /// guest 1.
    pub(super) fn team(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
    ) -> Result<String> {
        let program = self.setup.kernels.find(program)?;
        // Of the same name in every domain, and of this run alone: what a run that failed has left
        // is not used.
        let path =
            PathBuf::from(format!("/tmp/vshmem-bench-{}-{}", std::process::id(), self.fresh()));
        let (own, guests) = match case.environment {
            Environment::Native => (true, 0),
            Environment::GuestHost => (true, 1),
            Environment::Guest => (false, 1),
            Environment::Guests => (false, case.ranks.min(super::places::GUESTS)),
        };
        if case.environment == Environment::Guest {
            self.require_cpus(case.ranks)?;
        }
        let _meeting = own.then(|| Meeting::make(path.clone())).transpose()?;
        let shown = path.display();
        for guest in 1..=guests {
            self.guests(guests, Some(&program))?.shell(guest, &format!("mkdir -p {shown}"))?;
        }
        let cpus = self.cpus_of_ranks(case.ranks.max(2));
        let job = |rank| rank_job(case, &program, arguments, rank, &cpus, &path);
        let jobs: Vec<Job> = (0..case.ranks).map(job).collect();
        let command = self.setup.command.clone();
        let mut pool = String::new();
        if case.environment == Environment::Native && case.model == Model::Vshmem {
            self.processes()?.pool_name().clone_into(&mut pool);
        }
        let guest_lab = if guests > 0 { Some(self.guests(guests, None)?) } else { None };
        if let Some(guests) = guest_lab {
            pool = guests.pool_name()?;
        }
        // One that cannot be made is not in the way: the run is as good as it was without.
        let _filler = match case.model {
            Model::Vshmem => Filler::put(&command, &pool).ok(),
            _ => None,
        };
        let here = |job: &Job| match job.on_pool {
            true => run_on_pool(&[], job, &command, &pool, "on this machine"),
            false => run_bare(job),
        };
        let run = |rank: usize, job: &Job| match (case.environment, guest_lab) {
            (Environment::Native, _) | (_, None) => here(job),
            (Environment::GuestHost, _) if rank == 0 => here(job),
            (Environment::Guests, Some(lab)) => lab.run_in(rank as u32 % guests + 1, job),
            (_, Some(lab)) => lab.run_in(1, job),
        };
        let said = all_at_once(&jobs, &run);
        let mut texts = said.into_iter().collect::<Result<Vec<String>>>()?.into_iter();
        texts.find(|text| !text.trim().is_empty()).ok_or(Error::NoFigure {
            case: case.name.clone(),
            member: "seconds".into(),
            line: String::new(),
        })
    }
}

impl Places {
    /// Ranks that wait for each other by looking need a CPU each.
    fn require_cpus(&mut self, ranks: u32) -> Result<()> {
        let there = self.guests(1, None)?.cpus_of(1)?;
        if there >= ranks {
            return Ok(());
        }
        Err(Error::Absent {
            what: format!("a guest of {ranks} CPUs"),
            remedy: format!(
                "guest 1 has {there}. `vshmem lab up --guest qemu --cpus {ranks}`, and --lab with that lab's name"
            ),
        })
    }
}

/// What one rank runs.
fn rank_job(
    case: &Case,
    program: &Path,
    arguments: &[String],
    rank: u32,
    cpus: &[usize],
    path: &Path,
) -> Job {
    let mut words = arguments.to_vec();
    // A guest's one rank has its CPU; several have one each.
    let cpu = match (case.environment, rank) {
        (Environment::Native, rank) => Some(cpus[rank as usize]),
        (Environment::Guest, rank) => Some(rank as usize),
        (Environment::GuestHost, 0) => Some(cpus[1]),
        _ => None,
    };
    words.extend(cpu.into_iter().flat_map(|cpu| ["--cpu".into(), cpu.to_string()]));
    words.extend(["--rank".to_owned(), rank.to_string()]);
    words.extend(["--path".to_owned(), path.display().to_string()]);
    patient(case, program.to_owned(), words)
}

fn all_at_once(
    jobs: &[Job],
    run: &(dyn Fn(usize, &Job) -> Result<String> + Sync),
) -> Vec<Result<String>> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(rank, job)| scope.spawn(move || run(rank, job)))
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join());
        ended.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A directory that is there as long as this is.
struct Meeting(PathBuf);

impl Meeting {
    fn make(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path)
            .map_err(Error::io(format!("make the directory {}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
